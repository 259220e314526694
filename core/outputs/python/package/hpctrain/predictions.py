"""Reads what `hpctrain predict` writes."""

import os


def predictions(path):
    """A pandas DataFrame of .npz, .csv and .parquet; an xarray Dataset of .nc and .zarr.

    A table has a row for each sample, by its number in the data. Maps in .npz are no table: numpy.load reads them.
    """
    path = os.fspath(path)
    ending = os.path.splitext(path.rstrip("/"))[1]
    if ending == ".nc":
        import xarray

        return xarray.open_dataset(path)
    if ending == ".zarr":
        import xarray

        return xarray.open_zarr(path)
    import pandas

    if ending == ".csv":
        return pandas.read_csv(path, index_col="id")
    if ending == ".parquet":
        return pandas.read_parquet(path).set_index("id")
    if ending == ".npz":
        return _of_arrays(path, pandas)
    raise ValueError(f"{path}: expected .npz, .csv, .parquet, .nc or .zarr, as `hpctrain predict --out` writes them")


def _of_arrays(path, pandas):
    import numpy as np

    columns = {}
    with np.load(path) as arrays:
        for name in arrays.files:
            array = arrays[name]
            if array.ndim > 2:
                raise ValueError(f"{path}: {name} has maps, of the shape {array.shape}: read it with numpy.load")
            if array.ndim == 1 or array.shape[1] == 1:
                columns[name] = array.reshape(-1)
            else:
                columns.update({f"{name}_{i}": array[:, i] for i in range(array.shape[1])})
    return pandas.DataFrame(columns).set_index("id")
