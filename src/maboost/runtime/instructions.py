"""Instructions that numba does not offer: adding to cells, words of bytes, prefetching, fast conversion.

The compiler cannot know that cells and sums do not overlap, so a kernel would reload its operands after each
store. These instructions keep the value to add in a register and read bins eight at a time.
"""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["add", "add_eight", "add_four", "bits_of", "byte", "eight_bytes", "prefetch", "whole"]


@intrinsic
def bits_of(typingctx: Any, value: Any) -> Any:
    """Reinterpret a float64 as the int64 of the same bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def whole(typingctx: Any, number: Any) -> Any:
    """Return the float of an integer from 0 to below 2^52; most processors cannot vectorise other conversions.

    The integer becomes the last bits of 2^52, from which 2^52 is subtracted.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        far = ir.DoubleType()(2.0**52)
        bits = builder.or_(args[0], ir.IntType(64)(0x433 << 52))
        return builder.fsub(builder.bitcast(bits, ir.DoubleType()), far)

    return types.float64(types.uint64), codegen


@intrinsic
def byte(typingctx: Any, flat: Any, at: Any) -> Any:
    """Return ``flat[at]`` of bytes without a bounds check."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.zext(builder.load(builder.gep(data, [args[1]])), ir.IntType(64))

    return types.intp(flat, types.intp), codegen


@intrinsic
def eight_bytes(typingctx: Any, flat: Any, start: Any) -> Any:
    """Read eight neighbours of a flat array of bytes as one number, the first in the lowest byte."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        where = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(64).as_pointer())
        word = builder.load(where)
        word.align = 1
        return builder.bswap(word) if sys.byteorder == "big" else word

    return types.uint64(flat, types.intp), codegen


@intrinsic
def add(typingctx: Any, sums: Any, own: Any, place: Any, more: Any, value: Any) -> Any:
    """Add: ``sums[own + place + more] += value`` for a flat array, with the index summed in this order.

    `own`, which all columns of a row share, is then added to the address once a row, and a constant
    `more` becomes part of the instruction.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        cell = context.make_array(signature.args[0])(context, builder, args[0]).data
        for offset in args[1:4]:
            cell = builder.gep(cell, [offset])
        builder.store(builder.add(builder.load(cell), args[4]), cell)
        return context.get_dummy_value()

    return types.void(sums, types.intp, types.intp, types.intp, types.int64), codegen


@intrinsic
def add_eight(typingctx: Any, sums: Any, own: Any, bins: Any, stride: Any, value: Any) -> Any:
    """Add: ``sums[own + b + k * stride] += value`` for each byte b of `bins`, where k counts the bytes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        first = context.make_array(signature.args[0])(context, builder, args[0]).data
        first = builder.gep(first, [args[1]])
        for k in range(8):
            place = builder.and_(builder.lshr(args[2], word(8 * k)), word(255))
            cell = builder.gep(builder.gep(first, [place]), [builder.mul(args[3], word(k))])
            builder.store(builder.add(builder.load(cell), args[4]), cell)
        return context.get_dummy_value()

    return types.void(sums, types.intp, types.uint64, types.intp, types.int64), codegen


@intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Prefetch an element of a flat array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        call = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        ask = cgutils.get_or_insert_function(builder.module, call, "llvm.prefetch.p0i8")
        where = builder.bitcast(builder.gep(data, [args[1]]), byte)
        builder.call(ask, [where, word(0), word(3), word(1)])  # read, high locality, data cache
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@intrinsic
def add_four(typingctx: Any, sums: Any, place: Any, cells: Any, at: Any) -> Any:
    """Add four cells at once: ``sums[place : place + 4] += cells[at : at + 4]`` for flat arrays."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        four = ir.VectorType(ir.IntType(64), 4).as_pointer()

        def pointer(array: int) -> Any:
            data = context.make_array(signature.args[array])(context, builder, args[array]).data
            return builder.bitcast(builder.gep(data, [args[array + 1]]), four)

        where = pointer(0)
        old, new = builder.load(where), builder.load(pointer(2))
        done = builder.store(builder.add(old, new), where)
        old.align = new.align = done.align = 8
        return context.get_dummy_value()

    return types.void(sums, types.intp, cells, types.intp), codegen
