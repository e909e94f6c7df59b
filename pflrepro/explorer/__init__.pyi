# Written by `python -m pflrepro.stubs` from __all__ and _NAMES.
from pflrepro.explorer import browser as browser
from pflrepro.explorer import controls as controls
from pflrepro.explorer import experiment as experiment
from pflrepro.explorer import pictures as pictures
from pflrepro.explorer import training as training
from pflrepro.explorer.browser import Browser as Browser
from pflrepro.explorer.browser import browse as browse
from pflrepro.explorer.experiment import Explorer as Explorer
from pflrepro.explorer.experiment import explore as explore
