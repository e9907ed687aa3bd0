"""Clips: where in a frame something is."""

from __future__ import annotations

import pytest
import torch

from windlass.core.errors import RecipeError
from windlass.data.sides.picture import join_regions
from windlass.data.sides.video import VideoOptions, VideoSource
from windlass.media.samples import sample_clips


def test_regions_are_the_means_of_their_places_row_by_row():
    grid = torch.randn(3, 16, 5)  # 4 x 4 places
    square = grid.view(3, 2, 2, 2, 2, 5)  # row of regions, row within, column of regions, column within
    joined = torch.cat([square[:, r, :, c].mean((1, 2)) for r in (0, 1) for c in (0, 1)], dim=1)
    torch.testing.assert_close(join_regions(grid, 2), joined)
    torch.testing.assert_close(join_regions(grid, 1), grid.mean(1))


def test_only_regions_tell_a_frame_from_its_mirror_image():
    grid = torch.randn(1, 49, 5)
    mirrored = grid.view(1, 7, 7, 5).flip(2).flatten(1, 2)
    torch.testing.assert_close(join_regions(grid, 1), join_regions(mirrored, 1))
    assert not torch.allclose(join_regions(grid, 3), join_regions(mirrored, 3), atol=1e-3)


def test_a_trained_cnn_gives_as_many_numbers_as_its_regions_have():
    side = VideoSource.fit(VideoOptions(cnn="small", frames=2, regions=3), ())
    clips = side.collate(side.encode_all(sample_clips()[:2]))["source"]
    front = side.front()
    assert front is not None
    assert front(clips).values.shape == (2, 2, side.sizes["source"])
    assert side.sizes["source"] == 9 * VideoSource.fit(VideoOptions(cnn="small", frames=2), ()).sizes["source"]


def test_more_regions_than_the_cnn_has_are_refused():
    with pytest.raises(RecipeError, match=r"source\.regions: 9, but small gives 8 x 8: set fewer"):
        VideoSource.fit(VideoOptions(cnn="small", regions=9), ())
