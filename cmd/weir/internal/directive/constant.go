package directive

import (
	"go/constant"
	"go/token"
	"go/types"
)

// constantFits reports whether a type can hold the value of an untyped constant.
func constantFits(v constant.Value, t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	if !ok {
		_, ok := t.Underlying().(*types.Interface)
		return ok && types.NewMethodSet(t).Len() == 0
	}
	switch info := b.Info(); {
	case info&types.IsBoolean != 0:
		return v.Kind() == constant.Bool
	case info&types.IsString != 0:
		return v.Kind() == constant.String
	case info&types.IsInteger != 0:
		v = constant.ToInt(v)
		return v.Kind() == constant.Int && inRange(v, b)
	case info&types.IsFloat != 0:
		return constant.ToFloat(v).Kind() == constant.Float
	case info&types.IsComplex != 0:
		return constant.ToComplex(v).Kind() == constant.Complex
	}
	return false
}

// inRange reports whether an integer fits its type. It uses the sizes of 64-bit
// machines; the compiler checks others.
func inRange(v constant.Value, b *types.Basic) bool {
	bits := 8 * int(types.SizesFor("gc", "amd64").Sizeof(b))
	if b.Info()&types.IsUnsigned != 0 {
		return constant.Sign(v) >= 0 && constant.BitLen(v) <= bits
	}
	if constant.Sign(v) < 0 {
		v = constant.BinaryOp(constant.UnaryOp(token.SUB, v, 0), token.SUB, constant.MakeInt64(1))
	}
	return constant.BitLen(v) < bits
}
