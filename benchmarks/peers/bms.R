# Arguments: iterations, burn-in, seed, g, model prior ("fixed" or "random"), its mean size, folder.
# Reads data.csv there, writes pips.csv and seconds.txt.
suppressMessages(library(BMS))
given <- commandArgs(trailingOnly = TRUE)
folder <- given[7]
data <- read.csv(file.path(folder, "data.csv"), check.names = FALSE)
variables <- names(data)[-1]
names(data) <- c("y", sprintf("v%d", seq_along(variables)))  # names of its own make no trouble
set.seed(as.integer(given[3]))
begun <- proc.time()
fit <- bms(data, iter = as.numeric(given[1]), burn = as.numeric(given[2]), g = as.numeric(given[4]),
           mprior = given[5], mprior.size = as.numeric(given[6]), nmodel = 100, mcmc = "bd",
           user.int = FALSE, logfile = FALSE)
spent <- proc.time() - begun
shares <- coef(fit, order.by.pip = FALSE, exact = FALSE)[, "PIP"]
write.csv(data.frame(variable = variables, pip = pmin(pmax(as.numeric(shares), 0), 1)),
          file.path(folder, "pips.csv"), row.names = FALSE)
cat(sum(spent[c("user.self", "sys.self", "user.child", "sys.child")], na.rm = TRUE), file = file.path(folder, "seconds.txt"))
