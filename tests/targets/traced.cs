// Calls methods that count themselves, when it is told to. What a trace counts must equal that exactly.
//
// traced
// `run N` calls each case N times and answers `done`. `counts` answers `NAME=CALLS` for each case since the last `counts`. `encode N` calls a method N times whose assembly the first call loads. `slow MILLISECONDS` makes one call that takes so long. `spin` starts a thread that calls `Spin` all the time, `stop` ends it.
using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Traced
{
    enum Mood { Calm = 1, Angry = 7 }

    struct Pair
    {
        public long First;
        public string Second;
    }

    class Basis
    {
        public readonly int Number;

        public Basis(int number)
        {
            Number = number;
            if (number == 13)
                throw new InvalidOperationException("thirteen");
        }
    }

    sealed class Derived : Basis
    {
        readonly List<int> list = new List<int>();

        public Derived(int number) : base(number + 1)
        {
            Cases.Count("ctor");
            list.Add(number);
        }
    }

    static class Generic<T>
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static T Same(T value)
        {
            Cases.Count("generic");
            return value;
        }
    }

    static class Cases
    {
        static readonly Dictionary<string, long> counts = new Dictionary<string, long>();

        public static void Count(string name)
        {
            lock (counts)
            {
                counts.TryGetValue(name, out long before);
                counts[name] = before + 1;
            }
        }

        public static string Take()
        {
            lock (counts)
            {
                StringBuilder text = new StringBuilder();
                foreach (KeyValuePair<string, long> count in counts)
                    text.Append(count.Key).Append('=').Append(count.Value).Append(' ');
                counts.Clear();
                return text.ToString().Trim();
            }
        }

        public static int Plain(int number)
        {
            Count("plain");
            return number * 2;
        }

        // It inlines a traced method, and comes before it.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int CallsSmall(int number)
        {
            Count("small");
            return Small(number);
        }

        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        static int Small(int number) => number + 1;

        // Small enough to be inlined into its caller.
        static int Tiny(int number) => number + 1;

        public static int CallsTiny(int number)
        {
            Count("tiny");
            return Tiny(number);
        }

        public static string Values(int number, string text, double ratio, bool flag, char letter, Mood mood, ulong large, DayOfWeek day, decimal price, TimeSpan span)
        {
            Count("values");
            return text + number;
        }

        // Two of one name.
        public static int Twice(int number)
        {
            Count("twice_number");
            return 2 * number;
        }

        public static string Twice(string text, List<int> numbers)
        {
            Count("twice_text");
            return text + text;
        }

        // The arguments change before the end.
        public static long Changes(long number, string text)
        {
            Count("changes");
            number = -1;
            text = "changed";
            return number + text.Length;
        }

        public static int Recursive(int depth)
        {
            Count("recursive");
            return depth == 0 ? 0 : 1 + Recursive(depth - 1);
        }

        public static int Throws(int number)
        {
            Count("throws");
            if (number >= 0)
                throw new InvalidOperationException("as asked");
            return number;
        }

        public static int Always()
        {
            Count("always");
            throw new InvalidOperationException("always");
        }

        public static int Handles(int number)
        {
            Count("handles");
            int result = 0;
            try
            {
                try
                {
                    if (number % 2 == 0)
                        return result + 1;
                    Throws(number);
                }
                catch (InvalidOperationException) when (number % 3 != 0)
                {
                    result += 2;
                }
                finally
                {
                    result += 4;
                }
            }
            catch (InvalidOperationException)
            {
                return -1;
            }
            return result;
        }

        public static Pair Structure(long first, string second)
        {
            Count("structure");
            return new Pair { First = first, Second = second };
        }

        static int[] numbers = new int[4];

        public static ref int Reference(int index)
        {
            Count("reference");
            return ref numbers[index & 3];
        }

        public static void Nothing()
        {
            Count("nothing");
        }

        public static int Switches(int number)
        {
            Count("switches");
            switch (number % 6)
            {
                case 0: return 10;
                case 1: return 20;
                case 2: return 30;
                case 3: return 40;
                case 4: number += 5; break;
                default: number += 6; break;
            }
            return number;
        }

        public static T Method<T>(T value, List<T> list)
        {
            Count("method");
            list.Add(value);
            return list[list.Count - 1];
        }

        public static void ByReference(ref int number, out string text)
        {
            Count("byref");
            number++;
            text = "out";
        }

        public static async Task<int> Later(int number)
        {
            Count("later");
            await Task.Yield();
            await Task.Delay(1);
            return number;
        }

        public static IEnumerable<int> Many(int number)
        {
            for (int i = 0; i < number; i++)
                yield return i;
        }

        // A method of the framework with precompiled code.
        public static string Escape(string text)
        {
            Count("framework");
            return Uri.EscapeDataString(text);
        }

        // The first call loads the assembly.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static string Encode(string text) => System.Web.HttpUtility.UrlEncode(text);

        // Main calls it, and never ends: what was inlined there would stay so.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Slow(int milliseconds)
        {
            Count("slow");
            Thread.Sleep(milliseconds);
        }

        static long spins;
        static volatile bool isSpinning;

        public static long Spins => Interlocked.Read(ref spins);

        // .NET Core 3.1 stops a thread in such a loop of calls only while it is in the method, so most of the time must be there.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Spin(long number)
        {
            long next = number;
            for (int turn = 0; turn < 40; turn++) next ^= next << 1;
            return next == 1 ? number + 2 : number + 1;
        }

        public static void StartToSpin()
        {
            isSpinning = true;
            new Thread(() =>
            {
                long turns = 0;
                while (isSpinning)
                {
                    turns = Spin(turns);
                    Interlocked.Exchange(ref spins, turns);
                }
            }) { IsBackground = true, Name = "spinner" }.Start();
        }

        public static void StopToSpin() => isSpinning = false;
    }

    static class Program
    {
        static void Main()
        {
            // Compiled and counted once, before any trace.
            Run(1);
            Cases.Take();
            Console.WriteLine("ready");
            for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            {
                string[] words = line.Split(' ');
                switch (words[0])
                {
                    case "run": Run(int.Parse(words[1])); Console.WriteLine("done"); break;
                    case "encode": for (int i = 0; i < int.Parse(words[1]); i++) Cases.Encode("a b"); Console.WriteLine("done"); break;
                    case "slow": Cases.Slow(int.Parse(words[1])); Console.WriteLine("done"); break;
                    case "counts": Console.WriteLine(Cases.Take()); break;
                    case "spin": Cases.StartToSpin(); Console.WriteLine("done"); break;
                    case "stop": Cases.StopToSpin(); Console.WriteLine("done"); break;
                    case "spins": Console.WriteLine(Cases.Spins); break;
                    default: Console.WriteLine("?"); break;
                }
            }
        }

        static void Run(int times)
        {
            Thread[] threads = new Thread[2];
            for (int i = 0; i < threads.Length; i++)
            {
                threads[i] = new Thread(() => Once(times));
                threads[i].Start();
            }
            foreach (Thread thread in threads)
                thread.Join();
        }

        static void Once(int times)
        {
            for (int i = 0; i < times; i++)
            {
                Cases.Plain(i);
                Cases.CallsTiny(i);
                Cases.CallsSmall(i);
                Cases.Values(i, "text", 0.5, true, 'x', Mood.Angry, ulong.MaxValue, DayOfWeek.Friday, 12.50m, TimeSpan.FromSeconds(1.5));
                for (int one = 0; one < 3; one++) Cases.Twice(i);
                Cases.Twice("text", null);
                Cases.Changes(i, "before");
                Cases.Recursive(5);
                Tried(() => Cases.Throws(i));
                Tried(() => Cases.Always());
                Cases.Handles(i);
                Cases.Structure(i, "second");
                Cases.Reference(i)++;
                Cases.Nothing();
                Cases.Switches(i);
                Cases.Escape("a b");
                Cases.Method(i, new List<int>());
                Cases.Method("s", new List<string>());
                int number = i;
                Cases.ByReference(ref number, out string text);
                Generic<int>.Same(i);
                Generic<string>.Same("s");
                Generic<object>.Same(null);
                new Derived(i == 12 ? 0 : i);
                Cases.Later(i).Wait();
                foreach (int each in Cases.Many(3))
                    number += each;
            }
        }

        static void Tried(Action action)
        {
            try
            {
                action();
            }
            catch (InvalidOperationException)
            {
            }
        }
    }
}
