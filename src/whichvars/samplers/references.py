"""The papers that the samplers come from, as ``Posterior.methods`` cites them."""

GRIFFIN_2014 = (
    "Griffin, J. E., Łatuszyński, K. and Steel, M. F. J. (2014). Individual adaptation: an adaptive MCMC scheme for "
    "variable selection problems. arXiv:1412.6760."
)
LAMNISOS_2013 = (
    "Lamnisos, D., Griffin, J. E. and Steel, M. F. J. (2013). Adaptive Monte Carlo for Bayesian variable selection in "
    "regression models. Journal of Computational and Graphical Statistics 22, 729–748."
)
BROWN_1998 = (
    "Brown, P. J., Vannucci, M. and Fearn, T. (1998). Multivariate Bayesian variable selection and prediction. "
    "Journal of the Royal Statistical Society B 60, 627–641."
)
GRIFFIN_2021 = (
    "Griffin, J. E., Łatuszyński, K. G. and Steel, M. F. J. (2021). In search of lost mixing time: adaptive Markov "
    "chain Monte Carlo schemes for Bayesian variable selection with very large p. Biometrika 108, 53–69."
)
LIANG_2022 = (
    "Liang, X., Livingstone, S. and Griffin, J. (2022). Adaptive random neighbourhood informed Markov chain Monte "
    "Carlo for high-dimensional Bayesian variable selection. Statistics and Computing 32, 84."
)
ZANELLA_2019 = (
    "Zanella, G. and Roberts, G. (2019). Scalable importance tempering and Bayesian variable selection. Journal of "
    "the Royal Statistical Society B 81, 489–517."
)
JANKOWIAK_2023 = (
    "Jankowiak, M. (2023). Bayesian variable selection in a million dimensions. Proceedings of the 26th International "
    "Conference on Artificial Intelligence and Statistics, PMLR 206. arXiv:2208.01180."
)
MIASOJEDOW_2013 = (
    "Miasojedow, B., Moulines, E. and Vihola, M. (2013). An adaptive parallel tempering algorithm. Journal of "
    "Computational and Graphical Statistics 22, 649–664."
)
SCHAFER_2013 = (
    "Schäfer, C. and Chopin, N. (2013). Sequential Monte Carlo on large binary sampling spaces. Statistics and "
    "Computing 23, 163–184."
)
