# Every public name, and where it lives. core/__init__.py reads this file, and so do type checkers.

from .attention.ledger import Ledger as Ledger
from .attention.ledger import explain as explain
from .attention.masks import MASKS as MASKS
from .attention.sources import random_matrices as random_matrices
from .attention.sources import toy_sentence as toy_sentence
from .attention.trace import AttentionTrace as AttentionTrace
from .attention.trace import attend as attend
from .attention.trace import softmax as softmax
from .capturing.capture import Capture as Capture
from .capturing.capture import capture as capture
from .capturing.edits import Edits as Edits
from .capturing.generating import Generation as Generation
from .capturing.generating import generate as generate
from .capturing.layers import layer_labels as layer_labels
from .capturing.layers import missing_layers as missing_layers
from .capturing.places import Place as Place
from .capturing.weights_only import WeightsOnly as WeightsOnly
from .capturing.weights_only import attention_weights as attention_weights
from .errors import InputError as InputError
from .heads.aligning import align as align
from .heads.attribution import Attribution as Attribution
from .heads.attribution import ScoreAttribution as ScoreAttribution
from .heads.attribution import cosine_attribution as cosine_attribution
from .heads.attribution import direct_contributions as direct_contributions
from .heads.attribution import logit_attribution as logit_attribution
from .heads.attribution import score_attribution as score_attribution
from .heads.comparing import Comparison as Comparison
from .heads.comparing import compare as compare
from .heads.effects import head_effects as head_effects
from .heads.lens import Lens as Lens
from .heads.lens import logit_lens as logit_lens
from .heads.metrics import head_metrics as head_metrics
from .heads.one_query import pair_weights as pair_weights
from .heads.patterns import match_heads as match_heads
from .heads.probing import probe_heads as probe_heads
from .models.loading import load_model as load_model
from .models.loading import model_size as model_size
from .models.model import Model as Model
from .models.projections import HeadWeights as HeadWeights
from .models.projections import head_weights as head_weights
from .notebook.figures import heads_figure as heads_figure
from .notebook.figures import stage_figure as stage_figure
from .notebook.view import View as View
from .notebook.view import view as view

__version__: str
