"""Networks made to be separated: groups of paths that exchange few features.

Source: the separable networks of the paper on "Deep Learning on Mobile and Embedded Devices by
separable ResNeXt" in ``docs/separable.md``.
"""
