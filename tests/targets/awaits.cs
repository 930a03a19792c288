// Calls asynchronous methods that count themselves. What a trace counts must equal that exactly.
//
// also: debug
//
// awaits
// `run N` calls each case N times on each of 4 threads and answers `done`. `counts` answers `NAME=CALLS` for each case since the last
// `counts`. `values` and `named` make calls with known arguments. `inner N` awaits N short calls and works for 300 ms after each. `hold N` begins N
// calls that wait, `release` lets them end. `times` answers the sum of the durations of `Timed`, in nanoseconds, by a clock of its own, `waited` that of
// the last `values`.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Awaits
{
    enum Mood { Calm = 1, Angry = 7 }

    sealed class Holder<T>
    {
        readonly T value;

        public Holder(T value) => this.value = value;

        public async Task<List<T>> Get()
        {
            Cases.Count("holder");
            await Task.Yield();
            return new List<T> { value };
        }

        public async ValueTask<T> Take(bool isLater)
        {
            Cases.Count("take");
            if (isLater)
                await Task.Yield();
            return value;
        }
    }

    sealed class Order
    {
        public double filler = 1;
        public long customer = 7;
        public object text;
    }

    struct Place
    {
        public int Number;

        public async Task<int> Get()
        {
            Cases.Count("place");
            int number = Number;
            await Task.Yield();
            return number;
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
                string text = string.Join(" ", counts.Select(count => count.Key + "=" + count.Value));
                counts.Clear();
                return text;
            }
        }

        public static async Task<int> Later(int number)
        {
            Count("later");
            await Task.Yield();
            await Task.Delay(1);
            return number;
        }

        public static async Task Nothing()
        {
            Count("nothing");
            await Task.Yield();
        }

        public static async Task<int> AtOnce(int number)
        {
            Count("at_once");
            await Task.CompletedTask;
            return number;
        }

        public static async Task AtOnceNothing()
        {
            Count("at_once_nothing");
            await Task.CompletedTask;
        }

        public static async Task ThrowsAtOnce()
        {
            Count("throws_at_once");
            await Task.CompletedTask;
            throw new InvalidOperationException("at once");
        }

        public static async Task<int> ThrowsLater(string text)
        {
            Count("throws_later");
            await Task.Yield();
            throw new InvalidOperationException(text);
        }

        public static async Task Cancelled()
        {
            Count("cancelled");
            using (CancellationTokenSource source = new CancellationTokenSource())
            {
                Task delay = Task.Delay(-1, source.Token);
                source.Cancel();
                await delay;
            }
        }

        public static async Task<int> Handles(int number)
        {
            Count("handles");
            try
            {
                await ThrowsLater("handled");
            }
            catch (InvalidOperationException) when (number >= 0)
            {
                await Task.Yield();
            }
            finally
            {
                await Task.Yield();
            }
            return number;
        }

        public static async ValueTask Value(bool isLater)
        {
            Count("value");
            if (isLater)
                await Task.Yield();
        }

        public static async ValueTask<int> ValueOf(int number)
        {
            Count("value_of");
            if (number % 2 == 0)
                await Task.Yield();
            return number;
        }

        public static async Task<T> Same<T>(T value)
        {
            Count("same");
            await Task.Yield();
            return value;
        }

        public static async ValueTask<T> SameValue<T>(T value)
        {
            Count("same_value");
            await Task.Yield();
            return value;
        }

        public static async Task<int> Recursive(int depth)
        {
            Count("recursive");
            await Task.Yield();
            return depth == 0 ? 0 : 1 + await Recursive(depth - 1);
        }

        public static async Task<int> Many(int number)
        {
            Count("many");
            for (int i = 0; i < 5; i++)
                await Task.Yield();
            return number;
        }

        public static async IAsyncEnumerable<int> Stream(int number)
        {
            Count("stream");
            for (int i = 0; i < number; i++)
            {
                await Task.Yield();
                yield return i;
            }
        }

        public static async void Void(TaskCompletionSource<bool> done)
        {
            Count("void");
            await Task.Yield();
            done.SetResult(true);
        }

        // How long the last call of `Values` waited. A timer may end a little before its time, since its clock counts milliseconds.
        public static long Waited;

        // Opens when the first steps are over: until then another thread could end the call, and its record would have no result.
        public static TaskCompletionSource<bool> Gate = new TaskCompletionSource<bool>();

        public static async Task<string> Values(int number, string text, double ratio, bool flag, Mood mood, DayOfWeek day, decimal price, long changed)
        {
            await Gate.Task;
            long begin = Stopwatch.GetTimestamp();
            await Task.Delay(number);
            Waited = Stopwatch.GetTimestamp() - begin;
            changed += flag ? 1 : 0;
            // What a method does not use has no field.
            return text + ratio + mood + changed + (day == DayOfWeek.Friday && price > 0 ? "" : "!");
        }

        public static async Task<decimal> Price(decimal price)
        {
            await Gate.Task;
            return price * 2;
        }

        public static async Task<DayOfWeek> Day(int number)
        {
            await Gate.Task;
            return (DayOfWeek)number;
        }

        // Another class has a field with the name of a parameter, which is read first.
        public static async Task<int> Named(Order order, int customer, string text)
        {
            await Gate.Task;
            if (order.customer == 7 && order.text == null)
                customer.ToString();
            await Task.Delay(20);
            return text.Length + customer;
        }

        public static long Ticks;

        public static async Task Timed(int milliseconds)
        {
            long begin = Stopwatch.GetTimestamp();
            await Task.Delay(milliseconds);
            Thread.Sleep(milliseconds);
            await Task.Delay(milliseconds);
            Interlocked.Add(ref Ticks, Stopwatch.GetTimestamp() - begin);
        }

        public static async Task Inner()
        {
            await Task.Yield();
        }

        public static async Task Outer()
        {
            await Inner();
            Thread.Sleep(300);
        }

        public static async Task<int> Held(Task<int> until)
        {
            return await until;
        }
    }

    static class Program
    {
        static TaskCompletionSource<int> held = new TaskCompletionSource<int>();
        static readonly List<Task> waiting = new List<Task>();

        static void Main()
        {
            Run(1);
            Cases.Take();
            Console.WriteLine("ready");
            for (string line; (line = Console.ReadLine()) != null && line != "quit";)
                Console.WriteLine(Answer(line.Split(' ')));
        }

        // Opens the gate of a call that waits there.
        static T Ended<T>(Task<T> begun)
        {
            Cases.Gate.SetResult(true);
            T result = begun.Result;
            Cases.Gate = new TaskCompletionSource<bool>();
            return result;
        }

        static object Answer(string[] words)
        {
            int number = words.Length > 1 ? int.Parse(words[1]) : 0;
            switch (words[0])
            {
                case "run": Run(number); return "done";
                case "counts": return Cases.Take();
                case "results": return Ended(Cases.Price(6.25m)).ToString(System.Globalization.CultureInfo.InvariantCulture) + Ended(Cases.Day(5));
                case "named": return Ended(Cases.Named(new Order(), 12, "name")) + (new Holder<string>("s").Take(true).Result.Length);
                case "values": return Ended(Cases.Values(20, "text", 0.5, true, Mood.Angry, DayOfWeek.Friday, 12.50m, 5));
                case "timed": Task.WhenAll(Enumerable.Range(0, number).Select(_ => Cases.Timed(5))).Wait(); return "done";
                case "times": return (long)(Cases.Ticks * (1e9 / Stopwatch.Frequency));
                case "waited": return (long)(Cases.Waited * (1e9 / Stopwatch.Frequency));
                case "inner": for (int i = 0; i < number; i++) Cases.Outer().Wait(); return "done";
                case "hold": for (int i = 0; i < number; i++) waiting.Add(Cases.Held(held.Task)); return "done";
                case "release": return Release();
                default: return "?";
            }
        }

        static string Release()
        {
            held.SetResult(1);
            Task.WhenAll(waiting).Wait();
            held = new TaskCompletionSource<int>();
            waiting.Clear();
            return "done";
        }

        static void Run(int times)
        {
            Thread[] threads = new Thread[4];
            for (int i = 0; i < threads.Length; i++)
            {
                threads[i] = new Thread(() => Once(times).Wait());
                threads[i].Start();
            }
            foreach (Thread thread in threads)
                thread.Join();
        }

        static async Task Once(int times)
        {
            for (int i = 0; i < times; i++)
            {
                await Cases.Later(i);
                await Cases.Nothing();
                await Cases.AtOnce(i);
                await Cases.AtOnceNothing();
                await Tried(Cases.ThrowsAtOnce());
                await Tried(Cases.ThrowsLater("as asked"));
                await Tried(Cases.Cancelled());
                await Cases.Handles(i);
                await Cases.Value(i % 2 == 0);
                await Cases.ValueOf(i);
                await Cases.Same(i);
                await Cases.Same("s");
                await Cases.SameValue(i);
                await Cases.SameValue("s");
                await Cases.Recursive(3);
                await Task.WhenAll(Enumerable.Range(0, 20).Select(Cases.Many));
                await new Holder<int>(i).Get();
                await new Holder<string>("s").Get();
                await new Holder<object>(null).Take(i % 2 == 0);
                await new Holder<long>(7).Take(true);
                await new Place { Number = i }.Get();
                await foreach (int each in Cases.Stream(3))
                    _ = each;
                TaskCompletionSource<bool> done = new TaskCompletionSource<bool>();
                Cases.Void(done);
                await done.Task;
            }
        }

        static async Task Tried(Task task)
        {
            try
            {
                await task;
            }
            catch (Exception exception) when (exception is InvalidOperationException || exception is OperationCanceledException)
            {
            }
        }
    }
}
