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
