"""Outputs in the form that tools write them, with the noise that surrounds the failure."""

from __future__ import annotations

PYTEST = """\
============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-8.3.4, pluggy-1.5.0
rootdir: /home/ada/project
{progress}
tests/test_cart.py ..F.....                                              [ 96%]

=================================== FAILURES ===================================
_____________________________ test_discount_total ______________________________

cart = Cart(items=[Item(price=100), Item(price=50)])

    def test_discount_total(cart):
        cart.apply(Discount(10))
>       assert cart.total() == 135
E       assert 150 == 135
E        +  where 150 = total()

tests/test_cart.py:41: AssertionError
----------------------------- Captured stdout call -----------------------------
{debug}
=========================== short test summary info ============================
FAILED tests/test_cart.py::test_discount_total - assert 150 == 135
=================== 1 failed, 213 passed, 1 warning in 4.27s ===================
""".format(
    progress="\n".join(f"tests/test_module_{n}.py ..........     [ {n}%]" for n in range(60)),
    debug="\n".join(f"step {n} of the calculation, nothing to see here" for n in range(60)),
)
MYPY = "\n".join(
    [
        *(f"src/shop/old_{n}.py:1: note: unused section in the configuration" for n in range(80)),
        'src/shop/cart.py:17: error: Incompatible return value type (got "float")  [return-value]',
        *(f"src/shop/other_{n}.py:9: note: by default the bodies are not checked" for n in range(80)),
        "Found 1 error in 1 file (checked 161 source files)",
    ]
)
CARGO = "\n".join(
    [
        *(f"   Compiling crate{n} v1.{n}.0" for n in range(150)),
        "error[E0308]: mismatched types",
        "  --> src/cart.rs:17:9",
        "   |",
        "16 |     fn total(&self) -> u64 {",
        "   |                        --- expected `u64` because of return type",
        "17 |         self.items.iter().sum::<f64>()",
        "   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ expected `u64`, found `f64`",
        "",
        *(f"note: crate{n} is fine" for n in range(90)),
        'error: could not compile `shop` (bin "shop") due to 1 previous error',
    ]
)
GO_TEST = "\n".join(
    [
        *(f"ok  \texample.com/shop/pkg{n}\t0.0{n}s" for n in range(70)),
        "--- FAIL: TestTotal (0.00s)",
        "    cart_test.go:23: Total() = 150, want 135",
        "panic: runtime error: index out of range [3] with length 3 [recovered]",
        "",
        "goroutine 18 [running]:",
        "\t/home/ada/shop/cart.go:12 +0x1d",
        "FAIL\texample.com/shop\t0.004s",
        *(f"ok  \texample.com/shop/more{n}\t0.0{n}s" for n in range(70)),
        "FAIL",
    ]
)
JEST = "\n".join(
    [
        *(f"PASS src/mod{n}.test.ts" for n in range(120)),
        "FAIL src/cart.test.ts",
        "  ● Cart › applies the discount",
        "",
        "    expect(received).toBe(expected) // Object.is equality",
        "",
        "    Expected: 135",
        "    Received: 150",
        "",
        "      at Object.<anonymous> (src/cart.test.ts:19:26)",
        "",
        *(f"PASS src/later{n}.test.ts" for n in range(120)),
        "Tests:       1 failed, 312 passed, 313 total",
    ]
)
GCC = "\n".join(
    [
        *(f"cc -O2 -c -o build/unit{n}.o src/unit{n}.c" for n in range(90)),
        "src/cart.c: In function 'total':",
        "src/cart.c:17:12: error: incompatible types when returning type 'char *' but 'long' was expected",
        "   17 |     return label;",
        "      |            ^~~~~",
        *(f"cc -O2 -c -o build/late{n}.o src/late{n}.c" for n in range(90)),
        "make: *** [Makefile:12: build/cart.o] Error 1",
    ]
)
TRACEBACK = "\n".join(
    [
        *(f"2026-10-01T12:00:{n:02}Z INFO handled request {n}" for n in range(60)),
        "Traceback (most recent call last):",
        '  File "/home/ada/shop/main.py", line 12, in <module>',
        "    total(cart)",
        "  [frames]",
        "KeyError: 'price'",
        *(f"2026-10-01T12:01:{n:02}Z INFO handled request {n}" for n in range(60)),
    ]
)

OUTPUTS = {
    "pytest": (
        PYTEST,
        [
            "E       assert 150 == 135",
            "tests/test_cart.py:41: AssertionError",
            "FAILED tests/test_cart.py::test_discount_total - assert 150 == 135",
        ],
    ),
    "mypy": (MYPY, ["src/shop/cart.py:17: error: Incompatible return value", "Found 1 error in 1 file"]),
    "cargo": (
        CARGO,
        [
            "error[E0308]: mismatched types",
            "--> src/cart.rs:17:9",
            "expected `u64`, found `f64`",
            "could not compile",
        ],
    ),
    "go test": (
        GO_TEST,
        ["--- FAIL: TestTotal", "Total() = 150, want 135", "panic: runtime error", "~/shop/cart.go:12"],
    ),
    "jest": (
        JEST,
        ["FAIL src/cart.test.ts", "● Cart › applies", "Expected: 135", "Received: 150", "1 failed"],
    ),
    "gcc": (GCC, ["src/cart.c:17:12: error: incompatible types", "return label;", "Error 1"]),
    "traceback": (
        TRACEBACK,
        ["Traceback (most recent call last):", "KeyError: 'price'", 'File "~/shop/main.py"'],
    ),
}
