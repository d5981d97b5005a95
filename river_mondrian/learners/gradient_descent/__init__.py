"""Online gradient descent on the outputs of a feature map: IK-OGD on cells of an isolation kernel.

`losses` has the losses and their derivatives, `record` what a learner keeps, `scores` its scores,
`steps` how a sample moves its weights, `words` what features that count by themselves add,
`lifetimes` how learners at several lifetimes are mixed, and `learning` the kernels that Python
calls, one call per event. `rule` and `weights` are the Python side: what is to be learned how, and
the owner of the memory.
"""
