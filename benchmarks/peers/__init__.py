"""Every solver of the joint graphical lasso we know of on the same problems, judged by one judge."""
