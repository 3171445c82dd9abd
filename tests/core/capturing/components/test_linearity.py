"""Records of torch that are linear, and those that are not."""

import pytest
import torch

from core.capturing.components.linear_maps import Followed, passes_on

X = torch.arange(1.0, 25).reshape(1, 4, 6).requires_grad_()
W = torch.ones(6, 6)
BIAS = torch.ones(6, requires_grad=True)


@pytest.mark.parametrize(
    "tensor",
    [
        X * 2 + X / 3 - X,
        torch.nn.functional.linear(X, W, BIAS),
        (X @ W).view(1, 4, 2, 3).transpose(1, 2)[..., 1:].squeeze(0),
        torch.cat([-X[..., 3:], torch.zeros(1, 4, 3)], dim=-1).to(torch.bfloat16),
        torch.stack(X.unbind(dim=1)).permute(1, 0, 2).expand(3, 4, 6).bfloat16(),
        torch.bmm(X, torch.ones(1, 6, 2)),
        X.detach(),
    ],
)
def test_linear(tensor):
    assert Followed().first_other(tensor) is None


@pytest.mark.parametrize(
    ("tensor", "name"),
    [
        (X * X, "Mul"),
        (X @ X.transpose(1, 2), "Bmm"),
        (3 / X, "Reciprocal"),
        (X / X, "Div"),
        (X + torch.ones(6), "Add"),
        (X + 1, "Add"),
        (torch.nn.functional.linear(X, W, torch.ones(6)), "Addmm"),
        (X.relu() * 2, "Relu"),
        (X.softmax(dim=-1), "Softmax"),
        (X.abs().sum(), "Sum"),
        (X.clamp(0, 1)[0], "Clamp"),
    ],
)
def test_not_linear(tensor, name):
    followed = Followed()
    for _ in range(2):  # what was found once is found again
        assert followed.first_other(tensor) == name


def test_passing_on():
    made = X * 3
    for tensor in (
        made,
        made.relu() + made / 2,
        (made @ W).relu() - 0.5 * made.view(4, 6)[None],
        X + made.softmax(dim=-1),
    ):
        assert passes_on(tensor, [X, made])
    for tensor in (made @ W, made.relu() * 2, made * made.tanh(), X.detach()):
        assert not passes_on(tensor, [X, made])
