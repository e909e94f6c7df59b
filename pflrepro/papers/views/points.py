"""placeholder until merged"""

from dataclasses import dataclass

from pflrepro.papers.views.view import Shown


@dataclass(frozen=True)
class Points(Shown):
    pass
