// at::Reduction: what a loss of libtorch's makes of its values.
export const EACH = 0, MEAN = 1, SUM = 2;
