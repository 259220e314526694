import { variablesFormat } from "../netcdf/netcdf.ts";

export const hdf5 = variablesFormat("hdf5");
