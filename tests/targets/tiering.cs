// Keeps the runtime compiling: the same methods again at a higher tier, and new ones all the time.
//
// tiering
// A generic method over ever deeper value types is new code for each depth. `more` adds ten depths and answers how many there are; `count` answers the rounds over all.
using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Threading;

static class Tiering
{
    static readonly List<Func<int, long>> methods = new List<Func<int, long>>();
    static long rounds;

    interface IDepth
    {
        Func<int, long> Method();
        IDepth Deeper();
    }

    struct Zero { }

    struct Next<T>
    {
        public T Inner;
        public byte More;

        public Next(T inner, byte more)
        {
            Inner = inner;
            More = more;
        }
    }

    /// One depth of the tower of types.
    sealed class Depth<T> : IDepth
    {
        public Func<int, long> Method() => Burn<T>;
        public IDepth Deeper() => (IDepth)Activator.CreateInstance(typeof(Depth<>).MakeGenericType(typeof(Next<>).MakeGenericType(typeof(T))));
    }

    static void Main()
    {
        IDepth top = Add(new Depth<Zero>(), 10);
        new Thread(Work) { IsBackground = true, Name = "tiering" }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
        {
            if (line == "more")
                top = Add(top, 10);
            Console.WriteLine(line == "count" ? Interlocked.Read(ref rounds).ToString() : methods.Count.ToString());
        }
    }

    static IDepth Add(IDepth top, int depths)
    {
        for (int i = 0; i < depths; i++, top = top.Deeper())
            lock (methods)
                methods.Add(top.Method());
        return top;
    }

    static void Work()
    {
        while (true)
        {
            Func<int, long>[] all;
            lock (methods)
                all = methods.ToArray();
            foreach (Func<int, long> method in all)
                method(2000);
            Interlocked.Increment(ref rounds);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Burn<T>(int turns)
    {
        long state = Seed<T>();
        for (int i = 0; i < turns; i++)
            state = state * 6364136223846793005 + 1442695040888963407;
        return state;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Seed<T>() => typeof(T).IsValueType ? 1 : 0;
}
