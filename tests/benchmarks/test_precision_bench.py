"""The stand-in for bf16 hardware gives the numbers of bf16 products."""

import torch

from benchmarks.precision import ProductsOfBf16


def products(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    """Forward and backward, plain and batched."""
    a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
    product = a @ b
    product.backward(torch.ones_like(product))  # type: ignore[no-untyped-call]
    assert a.grad is not None
    assert b.grad is not None
    return [product.detach(), a.grad, b.grad]


def test_it_rounds_as_bf16_products_do() -> None:
    generator = torch.Generator().manual_seed(0)
    for shape in ((24, 24), (3, 24, 24)):
        a, b = torch.randn(2, *shape, generator=generator).to(torch.bfloat16)
        native = products(a, b)
        with ProductsOfBf16():  # type: ignore[no-untyped-call]
            stood_in = products(a, b)
        for one, other in zip(stood_in, native, strict=True):
            assert one.dtype == torch.bfloat16
            torch.testing.assert_close(one, other, rtol=2**-7, atol=1e-6)  # the sum's order: one step apart
            assert (one == other).float().mean() > 0.9


def test_float32_is_left_alone() -> None:
    a, b = torch.randn(2, 8, 8)
    expected = a @ b
    with ProductsOfBf16():  # type: ignore[no-untyped-call]
        assert torch.equal(a @ b, expected)
