"""Kinds of partitions, one object each: its text and help, its checks, its rule. `parse` reads them, `dividing.divide` applies them."""
