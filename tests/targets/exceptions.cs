// Throws and catches exceptions all the time: most of its time goes to the runtime's own unwinding, in native code.
//
// exceptions [NULLS]
// It throws from a recursion of eight calls with finally blocks, rethrows once, and catches with a filter.
// One exception in NULLS is a null reference, which the processor reports by a signal; none by default.
// `count` answers the exceptions so far.
using System;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Threading;

static class Exceptions
{
    static long thrown;
    static long finallyBlocks;
    static int nulls;

    sealed class Holder
    {
        public int Value;
    }

    static void Main(string[] arguments)
    {
        nulls = arguments.Length > 0 ? int.Parse(arguments[0], CultureInfo.InvariantCulture) : 0;
        new Thread(Work) { IsBackground = true, Name = "exceptions" }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "count" ? Interlocked.Read(ref thrown).ToString() : "unknown");
    }

    static void Work()
    {
        for (int turn = 0; ; turn++)
            CatchOne(turn);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void CatchOne(int turn)
    {
        try
        {
            Rethrow(turn);
        }
        catch (Exception) when (IsWanted(turn))
        {
            Interlocked.Increment(ref thrown);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static bool IsWanted(int turn)
    {
        return turn >= 0;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Rethrow(int turn)
    {
        try
        {
            Deep(turn, 8);
        }
        catch (InvalidOperationException)
        {
            throw;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Deep(int turn, int depth)
    {
        if (depth == 0)
            return Throw(turn);
        try
        {
            return Deep(turn, depth - 1) + 1;
        }
        finally
        {
            finallyBlocks++;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Throw(int turn)
    {
        Holder holder = null;
        if (nulls > 0 && turn % nulls == 0)
            return holder.Value;
        throw new InvalidOperationException("one of many");
    }
}
