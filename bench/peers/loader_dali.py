"""NVIDIA DALI's side of the loader benchmark: its pipeline for CPUs, as its own examples of image classification and its RandAugment
have it, with torchvision's ranges. It reads the folder of JPEGs itself. Arguments: recipe or crops (which has no RandAugment), the
folder, threads, and what to do, as loader_tasks.py has it.

It differs in what its operators can't do: shears and turns are about other points, erased places are in bytes of the mean, and are
drawn once, where torchvision tries ten times for one that fits; its shapes are the same nine times in ten."""
import math
import sys

from loader_tasks import TASKS
from nvidia.dali import fn, math as dali_math, pipeline_def, types
from nvidia.dali.auto_aug.rand_augment import rand_augment
from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

SIDE, BATCH = 224, 64
MEAN, STD = [255 * x for x in (0.485, 0.456, 0.406)], [255 * x for x in (0.229, 0.224, 0.225)]


@pipeline_def(enable_conditionals=True)
def pipeline(path, policies):
    files, labels = fn.readers.file(file_root=path, name="files", shuffle_after_epoch=True)
    images = fn.decoders.image_random_crop(
        files, device="cpu", output_type=types.RGB, random_area=[0.08, 1], random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10)
    images = fn.resize(images, size=[SIDE, SIDE], interp_type=types.INTERP_LINEAR)
    if policies:
        images = rand_augment(
            images, 2, 9, shape=(SIDE, SIDE), max_translate_rel=150 / 331, fill_value=0, interp_type=types.INTERP_NN)
    if fn.random.coin_flip(probability=0.25, dtype=types.BOOL):
        area = fn.random.uniform(range=[0.02, 0.33])
        form = dali_math.exp(fn.random.uniform(range=[math.log(0.3), math.log(3.3)]))
        height = dali_math.min(dali_math.sqrt(area * form), 1)
        width = dali_math.min(dali_math.sqrt(area / form), 1)
        top = fn.random.uniform(range=[0, 1]) * (1 - height)
        left = fn.random.uniform(range=[0, 1]) * (1 - width)
        images = fn.erase(
            images, anchor=fn.stack(top, left), shape=fn.stack(height, width), normalized=True, axis_names="HW", fill_value=MEAN)
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=MEAN, std=STD, output_layout="CHW", dtype=types.FLOAT)
    return images, fn.squeeze(fn.cast(labels, dtype=types.INT64), axes=[0])


class Loader:
    """An epoch whenever it is iterated: the pipeline goes on reading ahead between two of them."""

    def __init__(self, kind, path, threads):
        made = pipeline(path, kind == "recipe", batch_size=BATCH, num_threads=threads, device_id=None)
        self.batches = DALIGenericIterator(
            [made], ["x", "y"], reader_name="files", auto_reset=True, last_batch_policy=LastBatchPolicy.PARTIAL)

    def __iter__(self):
        for (batch,) in self.batches:
            yield batch["x"], batch["y"]


kind, path, threads, what = sys.argv[1:]
TASKS[what](lambda: Loader(kind, path, int(threads)))
