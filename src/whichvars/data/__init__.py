"""What people have, made into named columns of numbers: frames, files, categories, formulas, genotypes, sums over rows; and how arrays are kept in files."""
