"""Online gradient descent on the outputs of a feature map: IK-OGD on cells of an isolation kernel.

`descent` has the record of a learner, the losses, the scores and the steps. `learning` adds the
words of texts, mixes learners at several lifetimes, and has the kernels that Python calls.
`weights` is the Python side: the loss and the learning rate, and the owner of the memory.
"""
