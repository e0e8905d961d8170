import time, pandas as pd, whichvars as wv
t=time.process_time(); p=wv.PooledPosterior.load("/tmp/wt/scratch-docs27/user/tickets-run/posterior.npz"); print("load",time.process_time()-t, [len(x.kept) for x in p.parts])
X=pd.read_csv("/tmp/wt/scratch-docs27/user/new.csv")
tabs=p.imputations.complete_new(X,0,0); print(type(tabs), type(tabs[0]), len(tabs))
part=p.parts[0]
for k in range(2):
    t=time.process_time(); part.predict(tabs[k], return_std=True); print("predict", time.process_time()-t)
