"""Exceptions for errors in a user's input or environment.

Each message says what was given, what is allowed and what to do. The command line prints it as one line and exits
with 2. An exception that is not a `RaptorError` is a bug in raptor.
"""

import pickle
import re


def one_line(error: BaseException) -> str:
    """Return the class and the first line of an error of another library, without terminal colours."""
    if isinstance(error, pickle.UnpicklingError):  # torch's message recommends to load the file anyway
        return "it contains code or objects other than tensors"
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().partition("\n")[0][:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def printable(text: str) -> str:
    """Escape the control characters in a text, so that it can be printed safely."""
    shown = (letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1] for letter in text)
    return "".join(shown)


class RaptorError(Exception):
    """Base class of all errors that a user's input can cause."""


class LayoutError(RaptorError):
    """A token group, token count or patch grid that the model does not have."""


class PhaseError(RaptorError):
    """Phases that are invalid, or that do not match the depth of the model."""


class MatrixError(RaptorError):
    """A matrix that is not a layer-layer similarity."""


class LayerError(RaptorError):
    """A layer outside 0..L."""


class ModelNotFoundError(RaptorError):
    """A model that does not exist, or that cannot be loaded."""


class UnsupportedModelError(RaptorError):
    """A model whose architecture no adapter supports."""


class WeightsError(RaptorError):
    """Weights that do not match the architecture, or a file without weights."""


class ImageSizeError(RaptorError):
    """An image size that the model does not support."""


class DataError(RaptorError):
    """Images or results that do not exist, cannot be read, or lack the requested annotations."""


class DamagedDataError(DataError):
    """More damaged images than are skipped by default."""


class MissingDependencyError(RaptorError):
    """A missing optional package."""


class OptionError(RaptorError):
    """An option with an invalid value."""


class OutputError(RaptorError):
    """A run directory that cannot be written to, or that another run is using."""


class ResumeError(RaptorError):
    """A run that cannot be resumed: its checkpoint is missing, damaged or of another configuration."""


class JoinError(RaptorError):
    """A process of a distributed run that did not join the others in time."""


class TrainingError(RaptorError):
    """A training that failed, for example because the loss is not finite."""


class PipelineError(RaptorError):
    """Failed stages of the pipeline; the results of the other stages are kept."""
