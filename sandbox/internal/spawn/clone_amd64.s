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
