"""The shipped numbers: complete, unchanged in shape, and equal to what the papers print (spot checks)."""

import math

import pandas as pd
import pytest

from pflrepro import papers
from pflrepro.errors import CorruptFile, UserError
from pflrepro.papers import numbers

ROWS_OF_TABLE = {
    "dbe_table5": 108,
    "gpfl_table1": 88,
    "pfllib_leaderboard": 380,
    "pfedfda_table1": 96,
    "fedbr_table1": 60,
}


def test_every_shipped_table_keeps_the_schema():
    names = numbers.published_tables()
    assert len(names) == 37
    for name in names:
        frame = numbers.published(name)
        assert tuple(frame.columns) == numbers.COLUMNS
        assert len(frame) > 0
        assert frame["value"].dtype == "float64"


@pytest.mark.parametrize(("name", "count"), ROWS_OF_TABLE.items())
def test_number_of_printed_cells(name, count):
    assert len(numbers.published(name)) == count


@pytest.mark.parametrize(
    ("name", "method", "dataset", "model", "setting", "value", "std"),
    [
        ("dbe_table5", "FedAvg+DBE", "FMNIST", "CNN4", "partition=practical;beta=0.1;N=20;rho=1", 97.69, math.nan),
        ("dbe_table5", "FedAvg+DBE", "AG News", "fastText", "partition=practical;beta=1;N=20;rho=1", 96.87, math.nan),
        ("dbe_table5", "FedBABU", "Cifar100", "CNN4", "partition=practical;beta=0.1;N=100;rho=0.5", 52.07, math.nan),
        ("gpfl_table1", "GPFL", "Cifar100", "CNN4", "rho=1;N=20;beta=0.1;partition=practical", 61.86, 0.31),
        ("gpfl_table1", "FedPHP", "Tiny-ImageNet", "CNN4", "partition=practical;beta=0.1;N=20;rho=1", 35.69, 3.26),
    ],
)
def test_pairs_in_any_order_single_a_cell_out(name, method, dataset, model, setting, value, std):
    where = {"dataset": dataset, "model": model, "setting": setting}
    found = numbers.find_number((name,), (method,), where, "accuracy")
    assert found.value == value
    assert found.std == std or (math.isnan(std) and math.isnan(found.std))
    assert found.source == name


PRACTICAL = {"dataset": "FMNIST", "model": "CNN4", "setting": "partition=practical;beta=0.1;N=20;rho=1"}


def test_a_list_of_pairs_fits_only_with_the_same_pairs():
    less = PRACTICAL | {"setting": "partition=practical;beta=0.1"}
    assert numbers.find_number(("dbe_table5",), ("FedAvg",), less, "accuracy") is None
    more = PRACTICAL | {"setting": PRACTICAL["setting"] + ";more=1"}
    assert numbers.find_number(("dbe_table5",), ("FedAvg",), more, "accuracy") is None


def test_phrases_of_a_setting_in_words_are_parts_of_it():
    """pFedFDA's settings are prose: `Dir(0.5); 50% of training samples; 100 clients; ...`."""
    table = numbers.published("pfedfda_table1")
    settings = {line.setting for line in table.itertuples() if line.dataset == "CIFAR100-S"}
    quarter, whole = (
        numbers.find_number(
            ("pfedfda_table1",),
            ("pFedFDA",),
            {"dataset": "CIFAR100-S", "setting": f"Dir(0.5); {share}"},
            "test_accuracy",
        )
        for share in ("25% of training samples", "100% of training samples")
    )
    assert len(settings) == 4
    lines = table[(table["method"] == "pFedFDA") & (table["dataset"] == "CIFAR100-S")]
    assert [quarter.value, whole.value] == [
        lines.loc[lines["setting"].str.contains(f"; {share}%"), "value"].item() for share in (25, 100)
    ]
    part = {"dataset": "CIFAR100-S", "setting": "5% of training samples"}
    assert numbers.find_number(("pfedfda_table1",), ("pFedFDA",), part, "test_accuracy") is None, "a whole phrase"


def test_what_does_not_single_a_cell_out_is_an_error():
    with pytest.raises(CorruptFile, match=r"'dbe_table5' lists FedAvg, accuracy, \{'dataset': 'FMNIST'\} 2 times"):
        numbers.find_number(("dbe_table5",), ("FedAvg",), {"dataset": "FMNIST"}, "accuracy")
    assert numbers.find_number(("dbe_table5",), ("FedAvg",), {}, "accuracy") is None, (
        "what says nothing is printed nowhere"
    )


def test_a_missing_spread_comes_from_the_next_source_under_its_own_name():
    sources = ("dbe_table5", "pfllib_leaderboard")
    found = numbers.find_number(sources, ("FedAvg+DBE", "FedDBE"), PRACTICAL, "accuracy")
    assert (found.value, found.std, found.source, found.std_source) == (97.69, 0.05, "dbe_table5", "pfllib_leaderboard")


def test_a_spread_of_another_number_is_not_taken():
    """The leaderboard's FedBABU is fine-tuned: 36.82 with 0.45; DBE Table 1 prints 16.86."""
    cell = papers.study("dbe/table1", "paper").cells["fedbabu", "accuracy"]
    assert cell.published == 16.86 and math.isnan(cell.published_std)


def test_a_listed_cell_without_a_value_keeps_its_note():
    where = {"dataset": "Cifar100", "model": "CNN4", "setting": "partition=practical;beta=0.1;N=100;rho=0.5"}
    found = numbers.find_number(("dbe_table5",), ("APPLE",), where, "accuracy")
    assert math.isnan(found.value)
    assert "APPLE assumes rho=1" in found.note


def test_an_unlisted_cell_is_none():
    assert numbers.find_number(("dbe_table5",), ("Local",), PRACTICAL, "accuracy") is None
    assert numbers.find_number(("dbe_table5",), ("FedAvg",), PRACTICAL, "mdl") is None


def test_unknown_table_names_the_nearest_first():
    with pytest.raises(UserError, match=r"unknown published table 'dbe_table'; valid: dbe_table"):
        numbers.published("dbe_table")


def test_a_caller_cannot_change_the_shipped_numbers():
    mine = numbers.published("dbe_table5")
    mine.loc[:, "value"] = 0.0
    assert numbers.published("dbe_table5")["value"].max() == 99.74


def table(**changes):
    line = dict(zip(numbers.COLUMNS, ("FedAvg", "s", "FMNIST", "CNN4", "accuracy", "1.5", "", ""), strict=True))
    return pd.DataFrame([line | changes], dtype=str)


def test_schema_accepts_an_empty_value_and_refuses_everything_odd():
    assert math.isnan(numbers.check_schema(table(value=""), "t")["value"][0])
    with pytest.raises(CorruptFile, match=r"'t': value 'abc' in row 2 is not a number"):
        numbers.check_schema(table(value="abc"), "t")
    with pytest.raises(CorruptFile, match="must have the columns"):
        numbers.check_schema(table().drop(columns="note"), "t")
    with pytest.raises(CorruptFile, match="without a method"):
        numbers.check_schema(table(method=""), "t")
    with pytest.raises(CorruptFile, match="lists a cell twice"):
        numbers.check_schema(pd.concat([table(), table(value="2")], ignore_index=True), "t")
