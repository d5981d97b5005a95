"""Support vectors under a kernel: samples that are kept, and sums of their kernels with a new one.

`supports` says what a learner asks of them, `sparse` keeps samples by their values that are not 0,
under the Laplace and the Gaussian kernel, and `cells` keeps them by their cells, under an isolation
kernel.
"""
