"""Reading data into named columns of numbers: data frames, files, categories, formulas, genotypes and sums over rows.

It also contains the file format in which whichvars saves arrays.
"""
