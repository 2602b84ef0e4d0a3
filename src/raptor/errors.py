"""Named exceptions that a user may meet.

Each message says what was given, what is allowed and what to do; the command line prints it as one
line and exits with 2. An exception that is not a `RaptorError` is a bug of ours.
"""

import pickle
import re


def one_line(error: BaseException) -> str:
    """Return the first line of what another library says, without terminal colours; its kind where it says nothing."""
    if isinstance(error, pickle.UnpicklingError):  # which torch advises to run all the same
        return "it holds code or objects beside plain tensors"
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().partition("\n")[0][:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def printable(text: str) -> str:
    """Return text from outside as a terminal may show it: what would move the cursor or hide something is escaped."""
    shown = (letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1] for letter in text)
    return "".join(shown)


class RaptorError(Exception):
    """Base of everything that a user's input can cause."""


class LayoutError(RaptorError):
    """A token group, a token count or a patch grid that the model does not have."""


class PhaseError(RaptorError):
    """Phases that cannot be: not lengths, or not of this depth."""


class MatrixError(RaptorError):
    """A matrix that is no layer-layer similarity."""


class LayerError(RaptorError):
    """A layer outside 0..L."""


class ModelNotFoundError(RaptorError):
    """Nothing that can be loaded is at the place that was named."""


class UnsupportedModelError(RaptorError):
    """A model of an architecture that no adapter knows."""


class WeightsError(RaptorError):
    """Weights that do not belong to the architecture, or a file that is not weights."""


class ImageSizeError(RaptorError):
    """An image size that the model cannot take."""


class DataError(RaptorError):
    """Images that are not there, cannot be read, or lack what was asked of them."""


class DamagedDataError(DataError):
    """More damaged images than may be skipped in silence."""


class MissingDependencyError(RaptorError):
    """An optional package that this request needs."""


class OptionError(RaptorError):
    """An option whose value cannot be used."""


class OutputError(RaptorError):
    """A run directory that cannot be written, or that another run holds."""


class ResumeError(RaptorError):
    """A run that cannot go on: no checkpoint of it, or one of another configuration."""


class TrainingError(RaptorError):
    """A training that cannot go on, such as a loss that is not finite."""


class PipelineError(RaptorError):
    """Stages of the whole pipeline that failed; the others are done and kept."""
