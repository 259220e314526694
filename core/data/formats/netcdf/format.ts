import { variablesFormat } from "./netcdf.ts";

export const netcdf = variablesFormat("netcdf");
