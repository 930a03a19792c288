// Calls a method, or allocates, as often as it is told to, and says how long that took: for measuring what a trace costs.
//
// called
// `calls N` and `objects N` answer with nanoseconds. `pace RATE SECONDS` calls a method so often a second, and answers with its own count.
using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Threading;

public sealed class Order
{
    public long Number;
}

public static class Called
{
    static Order kept;
    static long paced;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Step(long number) => number * 3 + 1;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static string Paced(int number, string text)
    {
        paced++;
        return text;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Calls(long count)
    {
        long begin = Stopwatch.GetTimestamp(), number = 0;
        for (long i = 0; i < count; i++)
            number = Step(number);
        GC.KeepAlive(number);
        return Nanoseconds(begin);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Objects(long count)
    {
        long begin = Stopwatch.GetTimestamp();
        for (long i = 0; i < count; i++)
            kept = new Order { Number = i };
        return Nanoseconds(begin);
    }

    // Sleeps between the calls. What is late is made up for, so the rate is right on average.
    static long Pace(long rate, long seconds)
    {
        long begin = Stopwatch.GetTimestamp(), before = paced;
        for (int made = 0; made < rate * seconds; made++)
        {
            while (Nanoseconds(begin) < made * (1000000000L / rate))
                Thread.Sleep(1);
            Paced(made, "text");
        }
        return paced - before;
    }

    static long Nanoseconds(long begin) =>
        (long)((Stopwatch.GetTimestamp() - begin) * (1e9 / Stopwatch.Frequency));

    static void Main()
    {
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
        {
            string[] words = line.Split(' ');
            switch (words[0])
            {
                case "calls": Console.WriteLine(Calls(long.Parse(words[1]))); break;
                case "objects": Console.WriteLine(Objects(long.Parse(words[1]))); break;
                case "pace": Console.WriteLine(Pace(long.Parse(words[1]), long.Parse(words[2]))); break;
                default: Console.WriteLine("?"); break;
            }
        }
    }
}
