"""Tables and figures of the paper on networks made to be separated."""

from partita.reproduce.separable import costs, deployment, models, requirement, training

#: Importing a module registers its figures.
_GROUPS = (costs, deployment, models, requirement, training)
