// Threads that spend their time in code of no method: write barriers, stubs of virtual and interface calls, and delegates.
//
// `methods` answers the methods' names, one thread each.
using System;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;

static class Stubs
{
    sealed class Node { public object First, Second; }
    struct Pair { public object First, Second; public long Number; }
    interface IShape { int Sides(); }
    sealed class Triangle : IShape { public int Sides() => 3; }
    sealed class Square : IShape { public int Sides() => 4; }
    sealed class Pentagon : IShape { public int Sides() => 5; }
    sealed class Hexagon : IShape { public int Sides() => 6; }

    static long sink;

    static void Main()
    {
        Action[] methods = { StoreInFields, StoreInArray, StoreByReference, CopyStructs, CallInterfaces, CallDelegates };
        foreach (Action method in methods)
            new Thread(() => { while (true) method(); }) { IsBackground = true, Name = method.Method.Name }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "methods" ? string.Join(" ", methods.Select(method => method.Method.Name)) : "unknown");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void StoreInFields()
    {
        var node = new Node();
        for (int i = 0; i < 100_000; i++)
        {
            node.First = node;
            node.Second = node;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void StoreInArray()
    {
        var nodes = new Node[64];
        var node = new Node();
        for (int i = 0; i < 100_000; i++)
            nodes[i & 63] = node;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void StoreByReference()
    {
        var node = new Node();
        for (int i = 0; i < 100_000; i++)
            Store(ref node.First, node);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Store(ref object place, object value) => place = value;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void CopyStructs()
    {
        var pairs = new Pair[64];
        pairs[0].First = pairs[0].Second = pairs;
        for (int i = 1; i < 100_000; i++)
            pairs[i & 63] = pairs[(i - 1) & 63];
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void CallInterfaces()
    {
        IShape[] shapes = { new Triangle(), new Square(), new Pentagon(), new Hexagon() };
        int sides = 0;
        for (int i = 0; i < 100_000; i++)
            sides += shapes[i & 3].Sides();
        sink += sides;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void CallDelegates()
    {
        Func<int, int, int> add = Add;
        int sum = 0;
        for (int i = 0; i < 100_000; i++)
            sum = add(sum, i);
        sink += sum;
    }

    static int Add(int left, int right) => left + right;
}
