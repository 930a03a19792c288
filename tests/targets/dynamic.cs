// Makes methods at run time, runs them and throws them away: code without metadata, gone when the collector likes.
//
// dynamic
// Odd rounds emit IL into a DynamicMethod, even ones compile an expression tree. `count` answers the rounds.
using System;
using System.Linq.Expressions;
using System.Reflection.Emit;
using System.Threading;

static class Dynamic
{
    static long rounds;

    static void Main()
    {
        new Thread(Work) { IsBackground = true, Name = "dynamic" }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "count" ? Interlocked.Read(ref rounds).ToString() : "unknown");
    }

    static void Work()
    {
        while (true)
        {
            Func<int, int> made = rounds % 2 == 1 ? Emitted() : Compiled();
            for (int i = 0; i < 300; i++)
                made(10000);
            if (rounds % 20 == 19)
                GC.Collect();
            Interlocked.Increment(ref rounds);
        }
    }

    /// A loop of multiplications, in IL.
    static Func<int, int> Emitted()
    {
        var method = new DynamicMethod("EmittedBurn", typeof(int), new[] { typeof(int) });
        ILGenerator il = method.GetILGenerator();
        il.DeclareLocal(typeof(int));
        Label again = il.DefineLabel();
        il.Emit(OpCodes.Ldc_I4_1);
        il.Emit(OpCodes.Stloc_0);
        il.MarkLabel(again);
        il.Emit(OpCodes.Ldloc_0);
        il.Emit(OpCodes.Ldc_I4, 1664525);
        il.Emit(OpCodes.Mul);
        il.Emit(OpCodes.Stloc_0);
        il.Emit(OpCodes.Ldarg_0);
        il.Emit(OpCodes.Ldc_I4_1);
        il.Emit(OpCodes.Sub);
        il.Emit(OpCodes.Starg_S, (byte)0);
        il.Emit(OpCodes.Ldarg_0);
        il.Emit(OpCodes.Brtrue, again);
        il.Emit(OpCodes.Ldloc_0);
        il.Emit(OpCodes.Ret);
        return (Func<int, int>)method.CreateDelegate(typeof(Func<int, int>));
    }

    /// The same as an expression tree.
    static Func<int, int> Compiled()
    {
        ParameterExpression turns = Expression.Parameter(typeof(int), "turns");
        ParameterExpression state = Expression.Variable(typeof(int), "state");
        LabelTarget end = Expression.Label(typeof(int));
        Expression body = Expression.Block(
            new[] { state },
            Expression.Assign(state, Expression.Constant(1)),
            Expression.Loop(
                Expression.IfThenElse(
                    Expression.Equal(turns, Expression.Constant(0)),
                    Expression.Break(end, state),
                    Expression.Block(
                        Expression.Assign(state, Expression.Multiply(state, Expression.Constant(1664525))),
                        Expression.PreDecrementAssign(turns))),
                end));
        return Expression.Lambda<Func<int, int>>(body, "CompiledBurn", new[] { turns }).Compile();
    }
}
