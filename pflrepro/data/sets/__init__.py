"""The data sets, described: one module a family, each with constants of `types.DatasetSpec`; `datasets.DATASETS` lists them.

A new set is a spec here, a reader in `pflrepro.data.readers` and one line in `datasets`.
"""
