"""Networks made to be separated: groups of paths that exchange few features.

Source: Lin, Wang, "Communication-efficient separable neural network for distributed inference on
edge devices". Sections, tables and formulas named in this package are that paper's.
"""
