// HDF5 files as a kind of data: their datasets are variables, as those of NetCDF-4 files are.
import { variablesFormat } from "../netcdf/netcdf.ts";

export const hdf5 = variablesFormat("hdf5", [".h5", ".hdf5"]);
