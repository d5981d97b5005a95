"""Online gradient descent on a feature map, for example on the cells of an isolation kernel.

`descent` has a learner's record, losses, scores and steps. `learning` adds the words of texts,
mixtures of learners at several lifetimes, and the kernels that Python calls. `weights` is the
Python part: the loss, the learning rate and the owner of the memory.
"""
