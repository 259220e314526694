// Data for the runs whose reports are shown in docs/screenshots: shapes in noise, an ocean, and a text.

/** A Python program with the folder to write to and the repository as arguments. */
export const MAKE_DATA = `
import sys, numpy, xarray
from pathlib import Path
from PIL import Image, ImageDraw
folder, root = map(Path, sys.argv[1:])
random = numpy.random.default_rng(0)

for kind in ("disc", "square", "triangle"):
    (folder / "shapes" / kind).mkdir(parents=True)
    for i in range(80):
        picture = Image.fromarray(random.normal(110, 30, (48, 48, 3)).clip(0, 255).astype("uint8"))
        size, x, y = random.integers(9, 18), *random.integers(18, 30, 2)
        colour = tuple(int(c) for c in random.integers(90, 255, 3))
        draw, box = ImageDraw.Draw(picture), (x - size, y - size, x + size, y + size)
        if kind == "disc": draw.ellipse(box, colour)
        elif kind == "square": draw.rectangle(box, colour)
        else: draw.polygon([(x, y - size), (x - size, y + size), (x + size, y + size)], colour)
        picture.save(folder / "shapes" / kind / f"{i}.png")

pages = "".join(page.read_text() for page in sorted((root / "docs/guides").glob("*.md")))
(folder / "story.bin").write_text("".join(c for c in pages if ord(c) < 128))

times, rows, columns = 160, 24, 48
lat, lon = numpy.linspace(60, 88, rows), numpy.arange(0, 360, 360 / columns)
phase = numpy.cumsum(random.normal(0.25, 0.1, times))
waves = sum(a * numpy.cos(numpy.radians(lon)[None, None] * k - phase[:, None, None] * s + numpy.radians(lat)[None, :, None] * 3 * k)
    for a, k, s in ((1, 1, 1), (0.6, 2, 1.7), (0.4, 3, 0.6)))
ice = (2.5 / (1 + numpy.exp(-2 * (waves + (lat[None, :, None] - 74) / 6)))).astype("float32")
ice[:, :7, 6:14] = ice[:, 2:5, 26:33] = numpy.nan
wind = (waves + random.normal(0, 0.1, waves.shape)).astype("float32")
names = ("time", "lat", "lon")
xarray.Dataset({"thickness": (names, ice, {"units": "m"}), "wind": (names, wind, {"units": "m s-1"})}, {
    "time": xarray.date_range("2020-01-01", periods=times, freq="D"), "lat": ("lat", lat, {"units": "degrees_north"}),
    "lon": ("lon", lon, {"units": "degrees_east"})}).to_netcdf(folder / "arctic.nc")
`;
