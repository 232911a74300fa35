#include "textflag.h"

// func cloneTask(flags, sp, ptid, entry uintptr, arg unsafe.Pointer) (r uintptr)
//
// See clone_amd64.s: the argument is in R0 here, and g stays in R28.
TEXT ·cloneTask(SB),NOSPLIT,$0-48
	MOVD	flags+0(FP), R0
	MOVD	sp+8(FP), R1
	MOVD	ptid+16(FP), R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	entry+24(FP), R19
	MOVD	arg+32(FP), R20
	MOVD	$220, R8 // clone
	SVC
	CBZ	R0, child
	MOVD	R0, r+40(FP)
	RET
child:
	MOVD	ZR, R29
	SUB	$64, RSP
	MOVD	R20, R0
	CALL	(R19)
	BRK

// func clone3Task(args, size, secret0, secret1, entry uintptr, arg unsafe.Pointer) (r uintptr)
//
// See clone_amd64.s.
TEXT ·clone3Task(SB),NOSPLIT,$0-56
	MOVD	args+0(FP), R0
	MOVD	size+8(FP), R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	secret0+16(FP), R4
	MOVD	secret1+24(FP), R5
	MOVD	entry+32(FP), R19
	MOVD	arg+40(FP), R20
	MOVD	$435, R8 // clone3
	SVC
	CBZ	R0, child
	MOVD	R0, r+48(FP)
	RET
child:
	MOVD	ZR, R29
	MOVD	ZR, R4
	MOVD	ZR, R5
	SUB	$64, RSP
	MOVD	R20, R0
	CALL	(R19)
	BRK
