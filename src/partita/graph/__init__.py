"""The network: layers, tensors, weights, and the places where it can be cut."""

from partita.graph.graph import Graph
from partita.graph.layer import Cut, Layer, Window
from partita.graph.load import load_graph
from partita.graph.node import Node
from partita.graph.pointwise import POINTWISE

__all__ = ["POINTWISE", "Cut", "Graph", "Layer", "Node", "Window", "load_graph"]
