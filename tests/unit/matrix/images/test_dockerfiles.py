"""The Dockerfiles: the two for GPUs differ in nothing but the GPU. The session `lint` runs hadolint over them."""

from pathlib import Path

import pytest

from matrix.images.record import containers_folder, load_images

FOLDER = containers_folder()
DOCKERFILES = sorted(FOLDER.glob("*/Dockerfile"))


def test_the_gpu_images_are_one_recipe() -> None:
    texts = [(FOLDER / name / "Dockerfile").read_text() for name in ("sm_103", "sm_120")]
    for name, gpu, arch, index in (("sm_103", "B300", "10.3", 0), ("sm_120", "RTX PRO 6000 Blackwell", "12.0", 1)):
        assert gpu in texts[index]
        texts[index] = texts[index].replace(name, "NAME").replace(gpu, "GPU").replace(f"LIST={arch}", "LIST=ARCH")
    assert texts[0] == texts[1]
    locks = {(FOLDER / name / "requirements.txt").read_text() for name in ("sm_103", "sm_120")}
    assert len(locks) == 1


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_the_payload_and_weights_are_not_in_the_image(path: Path) -> None:
    copied = [line for line in path.read_text().splitlines() if line.startswith("COPY")]
    assert copied
    assert not any("payload" in line or "safetensors" in line or "COPY . " in line for line in copied)


def test_extensions_are_compiled_for_the_images_gpu() -> None:
    for image in load_images().all():
        dockerfile = (FOLDER / image.entry.folder / "Dockerfile").read_text()
        if image.entry.torch_arch_list is not None:
            assert f"ARG TORCH_CUDA_ARCH_LIST={image.entry.torch_arch_list}\n" in dockerfile
