// Has a type with 30 type parameters, each of which stands for such a type again, six deep: its whole name has 700 million parts.
//
// wide
// `count` answers how often it has worked.
using System;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Known
{
    interface IWork
    {
        uint Work(uint state);
    }

    struct Wide<T0, T1, T2, T3, T4, T5, T6, T7, T8, T9, T10, T11, T12, T13, T14, T15, T16, T17, T18, T19, T20, T21, T22, T23, T24, T25, T26, T27, T28, T29> : IWork
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public uint Work(uint state)
        {
            for (int i = 0; i < 10000; i++)
                state = state * 1664525 + 1013904223;
            return state;
        }
    }

    static class Program
    {
        const int Depth = 6;
        static long count;

        static void Main()
        {
            Type open = typeof(Wide<,,,,,,,,,,,,,,,,,,,,,,,,,,,,,>);
            Type type = typeof(int);
            for (int depth = 0; depth < Depth; depth++)
                type = open.MakeGenericType(Enumerable.Repeat(type, open.GetGenericArguments().Length).ToArray());
            IWork work = (IWork)Activator.CreateInstance(type);
            new Thread(() => Repeat(work)) { IsBackground = true }.Start();
            Console.WriteLine("ready");
            for (string line; (line = Console.ReadLine()) != null && line != "quit";)
                Console.WriteLine(line == "count" ? Volatile.Read(ref count).ToString() : "unknown");
        }

        static void Repeat(IWork work)
        {
            for (uint state = 1; ; count++)
                state = work.Work(state);
        }
    }
}
