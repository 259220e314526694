"""Pictures of every kind as Pillow writes them, and what Pillow reads from them. Asked by tests/core/data/images_test.ts."""

import hashlib
import io
import json
import os
import struct
import sys
import tarfile
import zlib

import numpy as np
from PIL import Image

rng = np.random.default_rng(7)


def scene(height, width):
    """Smooth colours with some noise and edges: what JPEG was made for, and a little of what it was not."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [128 + 100 * np.sin(x / (7 + 3 * c) + c) * np.cos(y / (11 - 2 * c)) for c in range(3)]
    picture = np.stack(waves, -1) + rng.normal(0, 12, (height, width, 3))
    picture[height // 3 : height // 2, width // 4 : width // 2] = [250, 20, 60]
    return np.clip(picture, 0, 255).astype(np.uint8)


def jpegs(folder):
    for i in range(90):
        height, width = (int(side) for side in rng.integers(1, 90, 2))
        picture = Image.fromarray(scene(height, width))
        options = {"quality": int(rng.integers(20, 101)), "subsampling": ["4:4:4", "4:2:2", "4:2:0"][i % 3]}
        options["progressive"] = i % 5 == 0
        options["optimize"] = i % 7 == 0
        if i % 4 == 1:
            options["restart_marker_blocks" if i % 8 == 1 else "restart_marker_rows"] = 1 + i % 3
        if i % 6 == 5:
            picture = picture.convert("L")
        if i % 10 == 9:
            picture = picture.convert("CMYK")
        if i % 11 == 3:
            options["exif"] = turned()
        if i % 13 == 2:
            options["keep_rgb"] = True
            options["subsampling"] = "4:4:4"
        picture.save(f"{folder}/{i:03d}.jpg", **options)
    Image.fromarray(scene(480, 640)).save(f"{folder}/large.jpeg", quality=92)
    # Its header is longer than most readers look at once.
    Image.fromarray(scene(40, 50)).save(f"{folder}/comment.JPG", comment=b"x" * 65000, icc_profile=b"y" * 200000)
    with open(f"{folder}/trailing.jpg", "wb") as file, open(f"{folder}/000.jpg", "rb") as first:
        file.write(first.read() + b"what a camera left behind")


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def pngs(folder):
    rgb = scene(37, 53)
    grey = np.array(Image.fromarray(rgb).convert("L"))
    alpha = np.dstack([rgb, rng.integers(0, 256, grey.shape, dtype=np.uint8)])
    pictures = {
        "rgb": Image.fromarray(rgb),
        "rgba": Image.fromarray(alpha),
        "grey": Image.fromarray(grey),
        "grey_alpha": Image.fromarray(alpha).convert("LA"),
        "grey16": Image.fromarray(rng.integers(0, 65536, grey.shape, dtype=np.uint16)),
        "grey16_dark": Image.fromarray(rng.integers(0, 300, grey.shape, dtype=np.uint16)),
        "one_bit": Image.fromarray(grey).convert("1"),
        "one": Image.fromarray(rgb[:1, :1]),
        "column": Image.fromarray(rgb[:, :1]),
    }
    for colours in (2, 4, 13, 256):
        pictures[f"palette{colours}"] = Image.fromarray(rgb).quantize(colours)
    for name, picture in pictures.items():
        picture.save(f"{folder}/{name}.png")
        picture.save(f"{folder}/{name}_small.png", optimize=True)
    pictures["palette13"].save(f"{folder}/palette_clear.png", transparency=3)
    pictures["rgb"].save(f"{folder}/animated.png", save_all=True, append_images=[Image.fromarray(rgb[::-1].copy())])
    by_hand(folder, rgb)


def by_hand(folder, rgb):
    """What Pillow reads but does not write: 16 bits a colour, few greys, interlacing, every filter, data in parts."""
    def write(name, depth, kind, rows_of, width, height, interlaced=False, palette=None):
        def chunk(what, content):
            body = what + content
            return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
        data = b""
        for x, y, dx, dy in passes if interlaced else [(0, 0, 1, 1)]:
            above = None
            for i, row in enumerate(rows_of(x, y, dx, dy)):
                data += filtered(row, above, i % 5, max(1, depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind] // 8))
                above = row
        packed = zlib.compress(data)
        with open(f"{folder}/{name}.png", "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n")
            file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, int(interlaced))))
            if palette is not None:
                file.write(chunk(b"PLTE", palette))
            for at in range(0, len(packed), 1000):
                file.write(chunk(b"IDAT", packed[at : at + 1000]))
            file.write(chunk(b"tEXt", b"Comment\0of no importance") + chunk(b"IEND", b""))

    def filtered(row, above, kind, step):
        row, zero = row.astype(int), np.zeros(len(row), int)
        up = zero if above is None else above.astype(int)
        left = np.concatenate([zero[:step], row])[: len(row)]
        corner = np.concatenate([zero[:step], up])[: len(row)]
        p = left + up - corner
        a, b, c = abs(p - left), abs(p - up), abs(p - corner)
        paeth = np.where((a <= b) & (a <= c), left, np.where(b <= c, up, corner))
        guess = [zero, left, up, (left + up) // 2, paeth][kind]
        return bytes([kind]) + ((row - guess) % 256).astype(np.uint8).tobytes()

    def bits(values, depth):
        """Values of one row, packed from the high bit."""
        spread = ((values[:, None] >> np.arange(depth - 1, -1, -1)) & 1).astype(np.uint8)
        return np.packbits(spread.reshape(-1))

    height, width = rgb.shape[:2]
    deep = rng.integers(0, 65536, (height, width, 4), dtype=np.uint16).astype(">u2")
    for kind, channels in ((0, 1), (2, 3), (4, 2), (6, 4)):
        for interlaced in (False, True):
            def rows(x, y, dx, dy, channels=channels):
                return [r.reshape(-1).view(np.uint8) for r in np.ascontiguousarray(deep[y::dy, x::dx, :channels])]
            write(f"deep{kind}{interlaced}", 16, kind, rows, width, height, interlaced)
            def rows8(x, y, dx, dy, channels=channels):
                return [r.reshape(-1) for r in np.ascontiguousarray(deep[y::dy, x::dx, :channels].astype(np.uint8))]
            write(f"eight{kind}{interlaced}", 8, kind, rows8, width, height, interlaced)
    for depth in (1, 2, 4, 8):
        values = rng.integers(0, 2**depth, (height, width))
        palette = rng.integers(0, 256, 3 * 2**depth, dtype=np.uint8).tobytes()
        for kind in (0, 3):
            for interlaced in (False, True):
                def few(x, y, dx, dy, depth=depth, values=values):
                    return [bits(r, depth) for r in values[y::dy, x::dx] if len(r)]
                write(f"few{kind}_{depth}{interlaced}", depth, kind, few, width, height, interlaced, palette if kind else None)
    beyond = rng.integers(0, 16, (height, width))
    write("beyond", 4, 3, lambda x, y, dx, dy: [bits(r, 4) for r in beyond], width, height, False, bytes(range(30)))
    tiny = rng.integers(0, 2, (2, 3))
    write("tiny", 1, 0, lambda x, y, dx, dy: [bits(r, 1) for r in tiny[y::dy, x::dx] if len(r)], 3, 2, True)


def webps(folder):
    for i in range(12):
        height, width = (int(side) for side in rng.integers(1, 120, 2))
        picture = Image.fromarray(scene(height, width))
        if i % 3 == 1:
            picture.putalpha(Image.fromarray(rng.integers(0, 256, (height, width), dtype=np.uint8)))
        picture.save(f"{folder}/{i:02d}.webp", lossless=i % 2 == 0, quality=9 * i, exact=i % 4 == 0, exif=turned())


def read(path):
    with Image.open(path) as picture:
        if picture.mode == "I;16":  # which convert("RGB") makes white from 256 on
            picture = Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
        rgb = np.asarray(picture.convert("RGB"))
    return {"path": path, "shape": list(rgb.shape), "sha256": hashlib.sha256(rgb.tobytes()).hexdigest()}


def verdict(path):
    try:
        read(path)
        return True
    except Exception:
        return False


def class_folders(folder, sets):
    """Small pictures in class folders: {"train/cat": [[height, width, name], ...], ...}."""
    for where, pictures in sets.items():
        os.makedirs(f"{folder}/{where}", exist_ok=True)
        for height, width, name in pictures:
            Image.fromarray(scene(height, width)).save(f"{folder}/{where}/{name}")


def tensors(folder):
    """All samples as torchvision has them, ToTensor applied: labels, and a hash of the pictures' bytes."""
    import torch
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    data = ImageFolder(folder, transform=transforms.ToTensor())
    pictures = torch.stack([picture for picture, _ in data])
    return {
        "shape": list(pictures.shape),
        "labels": [label for _, label in data],
        "sha256": hashlib.sha256(pictures.numpy().tobytes()).hexdigest(),
    }


def deep(folder, side):
    """PNGs of 16 bits and others as torchvision reads them, each as shares of the most that its type holds."""
    import torch
    from torchvision.io import ImageReadMode, decode_image
    from torchvision.transforms.v2.functional import resize

    found = []
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        pixels = decode_image(path, ImageReadMode.RGB)
        with Image.open(path) as picture:
            if picture.mode == "I;16":
                assert np.array_equal(pixels.numpy(), np.stack([np.asarray(picture)] * 3)), path
        shares = pixels.float() / torch.iinfo(pixels.dtype).max
        wide = resize(shares, [side], antialias=True)
        found.append(
            {
                "path": path,
                "bits": 8 * pixels.element_size(),
                "shape": list(shares.shape),
                "sha256": hashlib.sha256(shares.numpy().tobytes()).hexdigest(),
                "resized": [wide.shape[1], wide.shape[2], wide.flatten().tolist()],
            }
        )
    return found


def deep_folder(folder):
    """A folder of two classes with images of 16 bits, of grey and of colours, and one of 8; and a label image for each."""
    os.makedirs(f"{folder}/made")
    pngs(f"{folder}/made")
    names = ["deep2False", "deep0True", "grey16", "deep6False", "grey16_dark", "rgb"]
    for i, name in enumerate(names):
        for at in (f"classes/{'ab'[i % 2]}", "pairs/images", "pairs/labels"):
            os.makedirs(f"{folder}/{at}", exist_ok=True)
        picture = open(f"{folder}/made/{name}.png", "rb").read()
        for at in (f"classes/{'ab'[i % 2]}/{i}", f"pairs/images/{i}"):
            open(f"{folder}/{at}.png", "wb").write(picture)
        Image.fromarray((rng.integers(0, 2, (37, 53)) * 300).astype(np.uint16)).save(f"{folder}/pairs/labels/{i}.png")
    with tarfile.open(f"{folder}/shard.tar", "w") as shard:
        for i in range(len(names)):
            for ending, content in (
                ("png", open(f"{folder}/pairs/images/{i}.png", "rb").read()),
                ("cls", str(i % 2).encode()),
            ):
                member = tarfile.TarInfo(f"{i}.{ending}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))
    return deep(f"{folder}/pairs/images", 20)


def main():
    ask = json.load(sys.stdin)
    folder = ask.get("folder")
    if ask["what"] == "make":
        for name, make in (("jpg", jpegs), ("png", pngs), ("webp", webps)):
            os.makedirs(f"{folder}/{name}")
            make(f"{folder}/{name}")
        paths = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in sorted(names)]
        json.dump([read(path) for path in paths], sys.stdout)
    elif ask["what"] == "deep":
        json.dump(deep(folder, ask["side"]), sys.stdout)
    elif ask["what"] == "deep folder":
        json.dump(deep_folder(folder), sys.stdout)
    elif ask["what"] == "verdicts":
        json.dump([verdict(path) for path in ask["paths"]], sys.stdout)
    elif ask["what"] == "classes":
        class_folders(folder, ask["sets"])
        json.dump(None, sys.stdout)
    elif ask["what"] == "tensors":
        json.dump(tensors(folder), sys.stdout)
    elif ask["what"] == "folder":
        from torchvision.datasets import ImageFolder

        data = ImageFolder(folder)
        json.dump({"classes": data.classes, "samples": data.samples}, sys.stdout)


main()
