"""Sets of images that show progress whenever they are iterated over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raptor.core.batches import Batch, ImageSource, LoadedImageSet
from raptor.core.processes import Processes
from raptor.runtime.progress import Progress, ProgressLike


def tracked(images: ImageSource, stage: str, progress: ProgressLike) -> ImageSource:
    """Return images that show a bar whenever they are iterated over; batches without a length stay as they are.

    Parameters
    ----------
    images
        Batches, or what `load_images` returned.
    stage
        What is being done with them.
    progress
        True shows progress on stderr, False shows none, and a function is called with a `ProgressState`.
    """
    return Tracked(images, stage, Progress.of(progress)) if isinstance(images, LoadedImageSet) else images


class Tracked:
    """A set of images that shows a progress bar during every iteration.

    Parameters
    ----------
    images
        The set of images.
    stage
        What is being done with them.
    progress
        Where that is shown.
    """

    def __init__(self, images: LoadedImageSet, stage: str, progress: Progress):
        self.images, self.stage, self.progress = images, stage, progress

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names, or None if the images have no labels."""
        return self.images.classes

    @property
    def mask_classes(self) -> tuple[str, ...] | None:
        """Names of the mask classes, or None if there are no masks or no names."""
        return self.images.mask_classes

    @property
    def n_mask_classes(self) -> int | None:
        """Number of mask classes, or None if it is not known."""
        return self.images.n_mask_classes

    @property
    def damaged(self) -> Sequence[dict[str, str]]:
        """Damaged images found so far."""
        return self.images.damaged

    @property
    def process_group(self) -> Processes:
        """The processes that share the images."""
        return self.images.process_group

    @property
    def batch_size(self) -> int:
        """Images per batch and process."""
        return self.images.batch_size

    def image_keys(self) -> set[str]:
        """Return a unique key for each image."""
        return self.images.image_keys()

    def identity(self) -> str:
        """Return a text that identifies the images and their preprocessing."""
        return self.images.identity()

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[Batch]:
        total = len(self.images) // self.process_group.world_size  # images of this process
        return self.progress.track(self.images, total, self.stage)

    def fit_eval_split(self) -> tuple[Tracked, Tracked]:
        """Split the images in two halves, each with its own progress bar."""
        first, second = self.images.fit_eval_split()
        return self._of(first), self._of(second)

    def with_batch_size(self, most: int) -> Tracked:
        """Return the same images in batches of at most `most`."""
        return self._of(self.images.with_batch_size(most))

    def unsharded(self) -> Tracked:
        """Return the same images without sharding: all of them in this process."""
        return self._of(self.images.unsharded())

    def split_off(self, n: int) -> tuple[LoadedImageSet, LoadedImageSet]:
        """Return the images without n of them, and these n, both without a progress bar."""
        return self.images.split_off(n)

    def sample(self, n: int) -> LoadedImageSet:
        """Return at most n of the images, without a progress bar."""
        return self.images.sample(n)

    def shuffled(self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Yield training batches indefinitely, without a progress bar."""
        return self.images.shuffled(first_step, batch_size, seed, part)

    def shuffled_epochs(
        self, first_step: int, batch_size: int, seed: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Batch]:
        """Yield training batches indefinitely, without a progress bar."""
        return self.images.shuffled_epochs(first_step, batch_size, seed, part)

    def _of(self, images: LoadedImageSet) -> Tracked:
        return Tracked(images, self.stage, self.progress)
