#include "textflag.h"

// func cloneTask(flags, sp, ptid, entry uintptr, arg unsafe.Pointer) (r uintptr)
//
// The kernel keeps every register but RCX, R11 and RAX, in both tasks, so the
// new task finds its entry and argument where the parent had put them.
//
// The entry is a Go function called by its internal convention (argument in
// AX, X15 zero): the wrapper for the assembler's convention is instrumented by
// the race detector, which must not run in a task without a goroutine.
TEXT ·cloneTask(SB),NOSPLIT,$0-48
	MOVQ	flags+0(FP), DI
	MOVQ	sp+8(FP), SI
	MOVQ	ptid+16(FP), DX
	MOVQ	entry+24(FP), R12
	MOVQ	arg+32(FP), R13
	XORL	R10, R10
	XORL	R8, R8
	MOVL	$56, AX // clone
	SYSCALL
	TESTQ	AX, AX
	JZ	child
	MOVQ	AX, r+40(FP)
	RET
child:
	XORL	BP, BP
	XORPS	X15, X15
	SUBQ	$64, SP
	MOVQ	R13, AX
	CALL	R12
	INT	$3

// func clone3Task(args, size, secret0, secret1, entry uintptr, arg unsafe.Pointer) (r uintptr)
//
// The secret stands in the fifth and sixth argument registers, which clone3
// ignores: it opens the filter of this thread for the call.
TEXT ·clone3Task(SB),NOSPLIT,$0-56
	MOVQ	args+0(FP), DI
	MOVQ	size+8(FP), SI
	MOVQ	secret0+16(FP), R8
	MOVQ	secret1+24(FP), R9
	MOVQ	entry+32(FP), R12
	MOVQ	arg+40(FP), R13
	XORL	DX, DX
	XORL	R10, R10
	MOVL	$435, AX // clone3
	SYSCALL
	TESTQ	AX, AX
	JZ	child
	MOVQ	AX, r+48(FP)
	RET
child:
	XORL	BP, BP
	XORL	R8, R8
	XORL	R9, R9
	XORPS	X15, X15
	SUBQ	$64, SP
	MOVQ	R13, AX
	CALL	R12
	INT	$3
