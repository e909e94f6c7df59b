"""Tables: every cell there, absent ones named, texts by hand."""

import pandas as pd

from pflrepro.viz import captions, tables


def test_long_table_by_hand(result):
    lines = {(line["method"], line["column"]): line for line in tables.long(result).to_dict("records")}
    assert len(lines) == 6
    assert lines["FedAvg", "A"]["published"] == "85.85 ± 0.19"
    assert lines["FedAvg", "A"]["ours"] == "86.00 ± 2.00"
    assert lines["FedAvg", "A"]["difference"] == "+0.15"
    assert lines["FedAvg", "A"]["n"] == 2
    assert lines["Nothing", "A"]["published"] == "no published number"
    assert lines["Nothing", "A"]["ours"] == "not run"
    assert lines["Nothing", "A"]["n"] == ""
    assert lines["FedAvg+DBE", "A"]["95 % interval"] == "64.15 to 76.85 (t, 2 seeds)"  # 70.5 +- 12.706 * 0.5
    assert lines["Nothing", "A"]["95 % interval"] == ""


def test_wide_table_has_the_papers_shape(result):
    frame = tables.wide(result)
    assert list(frame.index) == ["FedAvg", "FedAvg+DBE", "Nothing"]
    assert list(frame.columns) == [("A", "published"), ("A", "ours"), ("B", "published"), ("B", "ours")]
    assert frame.loc["Nothing", ("A", "published")] == "none"
    assert frame.loc["FedAvg", ("B", "ours")] == "not run"


def test_styled_table_shades_ours_by_verdict_and_says_what_it_is(result):
    html = tables.styled(result).to_html()
    assert "86.00 ± 2.00" in html
    assert tables.SHADES["within tolerance"] in html
    assert "scale fast; digits; 2 seeds; 2 rounds; maximum over rounds, on the test splits" in html


def test_caption_says_stand_in_and_nothing_run(stand_in, empty):
    assert "scale smoke (stand-in data, not comparable with the paper); digits; 1 seed; 1 round" in captions.caption(
        stand_in
    )
    assert captions.caption(empty) == "scale fast: nothing run yet"


def test_numbers_as_text():
    assert captions.mean_and_spread(97.694, 0.05) == "97.69 ± 0.05"
    assert captions.mean_and_spread(97.694, 0.05, n=1) == "97.69"
    assert captions.mean_and_spread(97.694, float("nan")) == "97.69"
    assert captions.mean_and_spread(float("nan"), 0.1) == ""
    assert captions.number(-0.5, 1, sign=True) == "-0.5"
    assert captions.span(1, 1, "seed") == "1 seed"
    assert captions.span(2, 2000, "round") == "2 to 2,000 rounds"


def test_claims_as_a_table(result, empty):
    (line,) = tables.claims(result).to_dict("records")
    assert (line["claimed"], line["ours, difference"], line["outcome"]) == (
        "FedAvg+DBE > FedAvg",
        "-15.50",
        "undecided",
    )
    assert captions.probability(2e-5) == "< 0.0001"


def test_without_claims_and_ranks_the_tables_are_empty(stand_in):
    assert tables.claims(stand_in).empty
    assert tables.mean_ranks(stand_in).to_dict("list") == {"method": [], "mean rank": []}


def test_markdown_escapes_bars():
    assert tables.markdown(pd.DataFrame({"a": ["x|y"], "b": [1]})) == "| a | b |\n| --- | --- |\n| x\\|y | 1 |\n"
