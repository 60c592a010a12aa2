# Columns of R as columns of Python.
#
# reticulate passes a missing whole number as -2147483648, because an integer of numpy has no NA. So numbers cross as
# the bytes of doubles, in which NA is NaN, and text crosses as a list, in which NA is None.

to_python_columns <- function(data, names) {
  absent <- setdiff(names, names(data))
  if (length(absent) > 0) {
    stop("data must have the columns of the formula, and lacks ", toString(absent), call. = FALSE)
  }
  columns <- lapply(stats::setNames(names, names), function(name) to_python_column(data[[name]], name))
  do.call(reticulate::dict, c(columns, list(convert = FALSE)))
}

to_python_column <- function(x, name) {
  if (is.factor(x) || is.character(x)) {
    return(reticulate::r_to_py(lapply(as.character(x), function(value) if (is.na(value)) NULL else value)))
  }
  if (is.object(x) || !(is.numeric(x) || is.logical(x))) {
    stop(
      "column ", name, " must be numeric, logical, text or a factor, got ", class(x)[1],
      ". Convert it, for example with as.numeric().",
      call. = FALSE
    )
  }
  bytes <- writeBin(as.double(x), raw(), endian = "little")
  python("numpy")$frombuffer(bytes, dtype = "<f8")
}

python <- function(module) reticulate::import(module, convert = FALSE)
