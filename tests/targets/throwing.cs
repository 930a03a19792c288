// Throws known numbers of exceptions of several kinds, on command.
//
// `throw ROUNDS` throws in each round: one of its own type, one in the framework, one by a null reference, one of a generic type, one that
// is rethrown, and one on a thread that ends with it. It answers `thrown FIRST_CHANCE`: what AppDomain.FirstChanceException has counted since
// the command before. Rounds are some milliseconds apart.
using System;
using System.Runtime.CompilerServices;
using System.Threading;

class OwnException : Exception
{
}

class GenericException<T> : Exception
{
}

static class Throwing
{
    static int firstChance;

    static void Main()
    {
        AppDomain.CurrentDomain.FirstChanceException += (sender, thrown) => Interlocked.Increment(ref firstChance);
        Round();
        firstChance = 0;
        Console.WriteLine("ready");
        while (Console.ReadLine() is string line && line != "quit")
        {
            var words = line.Split(' ');
            for (int round = 0; words[0] == "throw" && round < int.Parse(words[1]); round++)
            {
                Round();
                Thread.Sleep(15);
            }
            Console.WriteLine($"thrown {Interlocked.Exchange(ref firstChance, 0)}");
        }
    }

    static void Round()
    {
        Catch(Own);
        Catch(Framework);
        Catch(Null);
        Catch(Generic);
        Catch(Rethrown);
        var thread = new Thread(() => Catch(OnItsThread));
        thread.Start();
        thread.Join();
    }

    static void Catch(Action action)
    {
        try
        {
            action();
        }
        catch (Exception)
        {
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Own() => throw new OwnException();

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Framework() => int.Parse("no number");

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Null() => ((string)(object)nothing).GetHashCode();

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Generic() => throw new GenericException<int>();

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Rethrown()
    {
        try
        {
            throw new InvalidOperationException();
        }
        catch (InvalidOperationException)
        {
            throw;
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void OnItsThread() => throw new OwnException();

    static readonly object nothing = null;
}
