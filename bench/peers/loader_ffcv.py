"""FFCV's side of the loader benchmark: its own loader with the transforms that it has, over the .beton file that its writer makes once of
the folder. Arguments: crops (it has no RandAugment), the folder, how pictures lie in the file and the number of threads, such as
jpg-2 or raw-2, and what to do, as loader_tasks.py has it.

It has no random erasing. Its cut-out takes a square of one size out of every picture: here as many pixels as erasing one picture in four
takes. It resizes by OpenCV's mean of areas, and its batches are channels last."""
import os
import sys

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder
from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import Cutout, NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter
from loader_tasks import TASKS
from torchvision import datasets

SIDE, BATCH = 224, 64
MEAN, STD = 255 * np.array([0.485, 0.456, 0.406]), 255 * np.array([0.229, 0.224, 0.225])
CUT = round(SIDE * (0.25 * (0.02 + 0.33) / 2) ** 0.5)


def beton(path, mode):
    """The file beside the folder, written where it is not there yet."""
    file = f"{path}.{mode}.beton"
    if not os.path.exists(file):
        part = f"{file}.part"
        # Its jpg mode keeps no file as it was: OpenCV writes each anew, at the quality that they have.
        fields = {"image": RGBImageField(write_mode=mode, jpeg_quality=95), "label": IntField()}
        DatasetWriter(part, fields, num_workers=1).from_indexed_dataset(datasets.ImageFolder(path))
        os.rename(part, file)
    return file


def loader_of(path, mode, threads):
    image = [RandomResizedCropRGBImageDecoder((SIDE, SIDE), scale=(0.08, 1), ratio=(3 / 4, 4 / 3)), RandomHorizontalFlip()]
    image += [Cutout(CUT, tuple(int(x) for x in MEAN.round())), NormalizeImage(MEAN, STD, np.float32), ToTensor(), ToTorchImage()]
    label = [IntDecoder(), ToTensor(), Squeeze()]
    return Loader(beton(path, mode), BATCH, num_workers=threads, order=OrderOption.RANDOM, drop_last=False, os_cache=True,
                  pipelines={"image": image, "label": label})


_, path, way, what = sys.argv[1:]
mode, threads = way.split("-")
TASKS[what](lambda: loader_of(path, mode, int(threads)))
